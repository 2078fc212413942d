//! The valid word nearest to a mistyped one, for corrections in errors.

/// Number of characters compared: the cost is the product of the lengths of the words.
const COMPARED: usize = 64;

/// The candidate nearest to `word`, ignoring case; the first in a tie. `None` without candidates.
/// It may be far from `word`; [`near`] excludes such candidates.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    measured(word, candidates).map(|(_, candidate)| candidate)
}

/// The candidate nearest to `word`, if it is near enough to be meant: equal except for case, or
/// with at most a third of the letters of the longer word wrong, missing, added or swapped with the
/// next. One wrong letter in `E9` thus makes another word; in `sakc`, it is a typing error.
///
/// ```
/// use windward_scenario::suggest::near;
///
/// assert_eq!(near("newrneo", ["newreno", "sack"]), Some("newreno"));
/// assert_eq!(near("quic", ["newreno", "sack"]), None);
/// ```
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count().min(COMPARED);
    measured(word, candidates)
        .filter(|(distance, candidate)| *distance <= letters.max(candidate.chars().count()) / 3)
        .map(|(_, candidate)| candidate)
}

fn measured<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, &'a str)> {
    let lower = |text: &str| text.chars().take(COMPARED).collect::<String>().to_lowercase();
    let word = lower(word);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &lower(candidate)), candidate))
        .min_by_key(|&(distance, _)| distance)
}

/// `; did you mean ...?` if one of the candidates is near, else the candidates themselves.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match near(word, candidates.iter().copied()) {
        Some(candidate) => format!("; did you mean `{candidate}`?"),
        None if candidates.is_empty() => String::new(),
        None => format!("; valid are {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 3] = ["newreno", "reno", "lr-lmxcp"];

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        assert_eq!(near("newrneo", WORDS), Some("newreno"));
        assert_eq!(near("LR-LMXCP", WORDS), Some("lr-lmxcp"));
        assert_eq!(near("quic", WORDS), None);
        assert_eq!(nearest("quic", WORDS), Some("reno"));
        assert_eq!(near("reno", []), None);
        assert_eq!(nearest("reno", []), None);
    }

    #[test]
    fn hints_do_not_mislead() {
        let ids = ["E3", "L1", "L3", "xcp", "copa", "lr2008-fig3"];
        // Except for its case it equals a candidate, in any position.
        assert_eq!(near("l3", ids), Some("L3"));
        // One wrong letter of two, or three of four, make other words.
        assert_eq!(near("L9", ids), None);
        assert_eq!(near("nope", ids), None);
        // One wrong letter of three or four, or two of eleven, are typing errors.
        assert_eq!(near("xpc", ids), Some("xcp"));
        assert_eq!(near("cpoa", ids), Some("copa"));
        assert_eq!(near("lr2008fgi3", ids), Some("lr2008-fig3"));
        assert_eq!(near("", ids), None);
    }

    #[test]
    fn the_first_of_equals_is_taken_and_long_words_are_cut() {
        assert_eq!(nearest("c", ["b", "a"]), Some("b"));
        assert_eq!(near(&"x".repeat(1_000_000), WORDS), None);
    }

    #[test]
    fn a_near_word_is_offered_and_a_far_one_lists_all() {
        assert_eq!(hint("titel", ["id", "title"]), "; did you mean `title`?");
        assert_eq!(hint("xyz", ["id", "title"]), "; valid are id, title");
        assert_eq!(hint("xyz", []), "");
    }
}
