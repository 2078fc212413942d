//! The nearest valid word to a mistyped one.

/// ` (did you mean NAME?)` with the candidate nearest to `word`, or nothing if none is near.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&word, &c.to_lowercase()), c))
        .min_by_key(|&(distance, _)| distance)
        .filter(|&(distance, c)| distance <= 1 + c.len() / 3)
        .map(|(_, c)| format!(" (did you mean `{c}`?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_offered_and_far_ones_are_not() {
        let words = ["newreno", "reno", "lr-lmxcp"];
        assert_eq!(did_you_mean("newrneo", words), " (did you mean `newreno`?)");
        assert_eq!(did_you_mean("LR-LMXCP", words), " (did you mean `lr-lmxcp`?)");
        assert_eq!(did_you_mean("quic", words), "");
        assert_eq!(did_you_mean("reno", []), "");
    }
}
