//! Names of links and flows.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a link or a flow: a `str` that is cheap to clone. The names of a scenario are stored
/// one after the other in one allocation, since a large scenario has half a million.
#[derive(Clone)]
pub struct Name {
    text: Arc<String>,
    from: u32,
    until: u32,
}

impl Name {
    /// The name as a `str`.
    pub fn as_str(&self) -> &str {
        &self.text[self.from as usize..self.until as usize]
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Name {
    /// # Panics
    /// If the name is longer than 4 GiB.
    fn from(name: String) -> Self {
        let until = u32::try_from(name.len()).expect("a name of less than 4 GiB");
        Name { text: Arc::new(name), from: 0, until }
    }
}
impl From<&str> for Name {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self
    }
}
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Name {}
impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}
impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl Hash for Name {
    /// Hashes like `str`, as [`Borrow`] requires.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Name::from(String::deserialize(from)?))
    }
}

/// Names under construction, less than 4 GiB in total.
#[derive(Debug, Default)]
pub(crate) struct NamesInMaking {
    text: String,
    ends: Vec<u32>,
}

impl NamesInMaking {
    pub(crate) fn push(&mut self, name: fmt::Arguments<'_>) {
        // Writing into a string does not fail.
        let _ = fmt::Write::write_fmt(&mut self.text, name);
        self.ends.push(self.text.len() as u32);
    }

    /// The name with that index.
    pub(crate) fn get(&self, index: usize) -> &str {
        let (from, until) = span(&self.ends, index);
        &self.text[from as usize..until as usize]
    }

    pub(crate) fn finish(mut self) -> Names {
        self.text.shrink_to_fit();
        Names { text: Arc::new(self.text), ends: self.ends.into() }
    }
}

/// Many names in one allocation.
#[derive(Debug)]
pub struct Names {
    text: Arc<String>,
    ends: Box<[u32]>,
}

impl Names {
    /// These names. Where they lie one after the other already, as those of a scenario file do,
    /// they stay there.
    pub fn of<'a>(names: impl Iterator<Item = &'a Name> + Clone) -> Self {
        let mut end = 0;
        let mut follows = |name: &Name| name.from == std::mem::replace(&mut end, name.until);
        if let Some(Name { text, .. }) = names.clone().next()
            && names.clone().all(|name| Arc::ptr_eq(&name.text, text) && follows(name))
        {
            let ends = names.map(|name| name.until).collect();
            return Names { text: Arc::clone(text), ends };
        }
        let mut all = NamesInMaking::default();
        for name in names {
            all.push(format_args!("{name}"));
        }
        all.finish()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name with that index.
    pub fn get(&self, index: usize) -> Name {
        let (from, until) = span(&self.ends, index);
        Name { text: Arc::clone(&self.text), from, until }
    }
}

/// Start and end of the name with this index.
fn span(ends: &[u32], index: usize) -> (u32, u32) {
    (index.checked_sub(1).map_or(0, |before| ends[before]), ends[index])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_come_back() {
        let mut names = NamesInMaking::default();
        for name in ["a", "", "bulk-1"] {
            names.push(format_args!("{name}"));
        }
        assert_eq!([names.get(0), names.get(1), names.get(2)], ["a", "", "bulk-1"]);
        let names = names.finish();
        assert_eq!(names.len(), 3);
        assert_eq!([0, 1, 2].map(|index| names.get(index)), ["a", "", "bulk-1"]);
        let shown = format!("{} {:?} {:>7}", names.get(0), names.get(1), names.get(2));
        assert_eq!(shown, "a \"\"  bulk-1");
    }

    #[test]
    fn names_in_order_are_not_copied() {
        let mut names = NamesInMaking::default();
        for name in ["a", "bc", "d"] {
            names.push(format_args!("{name}"));
        }
        let made = names.finish();
        let mut names = [made.get(0), made.get(1), made.get(2)];
        let kept = Names::of(names.iter());
        assert!(Arc::ptr_eq(&kept.text, &made.text));
        assert_eq!([0, 1, 2].map(|index| kept.get(index)), names);
        // Names in another order are copied.
        names.swap(1, 2);
        assert_eq!([0, 1, 2].map(|index| Names::of(names.iter()).get(index)), names);
        assert_eq!(Names::of([].iter()).len(), 0);
    }

    #[test]
    fn a_name_equals_and_hashes_like_its_text() {
        let known: HashSet<Name> = ["a".into(), String::from("b").into()].into();
        assert!(known.contains("a") && known.contains("b") && !known.contains("c"));
        assert_eq!(size_of::<Name>(), 16);
    }
}
