//! Names of links and flows, kept for the outcome.

/// Strings one after the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: String,
    ends: Vec<usize>,
}

impl Names {
    /// The name with that index.
    pub(super) fn get(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }
}

impl<'a> FromIterator<&'a str> for Names {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        let mut all = Names::default();
        for name in names {
            all.text.push_str(name);
            all.ends.push(all.text.len());
        }
        all.text.shrink_to_fit();
        all.ends.shrink_to_fit();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let names: Names = ["a", "", "bulk-1"].into_iter().collect();
        assert_eq!([names.get(0), names.get(1), names.get(2)], ["a", "", "bulk-1"]);
    }
}
