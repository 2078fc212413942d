//! The nearest valid word to a mistyped one, for errors that say what would be right.

/// How much of the words is compared: the comparison takes the product of their lengths.
const COMPARED: usize = 64;

/// The candidate nearest to `word`, upper or lower case, the first of equals; `None` if there is
/// no candidate. It may be far: [`near`] leaves those out.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    measured(word, candidates).map(|(_, candidate)| candidate)
}

/// The candidate nearest to `word`, if it is near enough to be what was meant: a third of its
/// letters and one more may be wrong, missing, too many or swapped with the next.
///
/// ```
/// use windward_sim::suggest::near;
///
/// assert_eq!(near("newrneo", ["newreno", "sack"]), Some("newreno"));
/// assert_eq!(near("quic", ["newreno", "sack"]), None);
/// ```
pub fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    measured(word, candidates)
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 3)
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

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 3] = ["newreno", "reno", "lr-lmxcp"];

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        assert_eq!(near("newrneo", WORDS), Some("newreno"));
        assert_eq!(near("LR-LMXCP", WORDS), Some("lr-lmxcp"));
        // Four letters may be two edits away; all four of these differ.
        assert_eq!(near("quic", WORDS), None);
        assert_eq!(nearest("quic", WORDS), Some("reno"));
        assert_eq!(near("reno", []), None);
        assert_eq!(nearest("reno", []), None);
    }

    #[test]
    fn the_first_of_equals_is_taken_and_long_words_are_cut() {
        assert_eq!(nearest("c", ["b", "a"]), Some("b"));
        assert_eq!(near(&"x".repeat(1_000_000), WORDS), None);
    }
}
