//! Safety of foreign texts in terminals, shells and spreadsheets.

use std::borrow::Cow;
use std::fmt::Write;

/// The first character that a terminal interprets or hides instead of showing it: a control
/// character, a mark of direction, a space without width. Line breaks and tabs do not count.
pub fn control(text: &str) -> Option<char> {
    if !may_hold_control(text.as_bytes()) {
        return None;
    }
    let harmless = |at: usize, c: char| match c {
        '\n' | '\t' => true,
        '\r' => text[at + 1..].starts_with('\n'),
        _ => !is_unseen(c),
    };
    text.char_indices().find(|&(at, c)| !harmless(at, c)).map(|(_, c)| c)
}

/// Control characters, and characters that change the order of a text or that Unicode lets no font
/// show (Default_Ignorable_Code_Point, without selectors of variants).
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
            | '\u{17b5}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e00ff}')
}

/// True if these bytes may contain an unseen character. Checks many bytes at once, since
/// most texts have none.
fn may_hold_control(bytes: &[u8]) -> bool {
    const BLOCK: usize = 64;
    // Those beyond ASCII begin with these bytes.
    let suspect = |byte: u8| {
        (byte < b' ' && byte != b'\n' && byte != b'\t')
            | matches!(byte, 0x7f | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf3)
    };
    bytes.chunks(BLOCK).any(|block| block.iter().fold(false, |any, byte| any | suspect(*byte)))
}

/// The text with characters escaped that would not be seen, as in `\u{1b}`.
///
/// ```
/// use windward_scenario::text::printable;
///
/// assert_eq!(printable("5 %\n"), "5 %\n");
/// assert_eq!(printable("\u{1b}[2J"), "\\u{1b}[2J");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if control(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unseen(c) && !matches!(c, '\n' | '\t') {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// A word of a shell command, quoted if necessary. The result is one line that holds nothing a
/// terminal acts on, so that it can be copied from a page: a word with control characters, line
/// separators or marks of direction is escaped as bash, zsh and ksh read it.
///
/// ```
/// use windward_scenario::text::shell_word;
///
/// assert_eq!(shell_word("seed=7"), "seed=7");
/// assert_eq!(shell_word("it's mine.toml"), r"'it'\''s mine.toml'");
/// assert_eq!(shell_word("it's\n\u{1b}[201~"), r"$'it\'s\n\e[201~'");
/// ```
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    // A `!` is for the history of a shell, which some shells also look for in quotes.
    let acts = |c: char| {
        c.is_control()
            || c == '!'
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.contains(acts) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\u{1b}' => out.push_str("\\e"),
            '\'' | '\\' => out.extend(['\\', c]),
            c if acts(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Three digits, so that none that follows belongs to it.
                    let _ = write!(out, "\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// True if a spreadsheet that opens a CSV file would run this text as a formula: if it
/// begins with `=`, `@`, `+` or `-`. A number with a sign and a unit, such as `-3 dB` or `+1e-3%`,
/// is harmless.
pub fn is_formula(text: &str) -> bool {
    if text.starts_with(['=', '@']) {
        return true;
    }
    let Some(rest) = text.strip_prefix(['+', '-']) else { return false };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let mut unit = &rest[number..];
    if let Some(exponent) = unit.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if digits(exponent) > 0 {
            unit = &exponent[digits(exponent)..];
        }
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '%' | ' ' | '/');
    digits(rest.trim_start_matches('.')) == 0 || !unit.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_hold_nothing_that_a_terminal_acts_on() {
        for (word, quoted) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("$(touch x) `y` \\ \"z\"", "'$(touch x) `y` \\ \"z\"'"),
            ("a\rb\n", "$'a\\015b\\n'"),
            ("\u{1b}[201~'; x", "$'\\e[201~\\'; x'"),
            ("\u{9b}201~\u{85}", "$'\\302\\233201~\\302\\205'"),
            ("\u{2028}\u{202e}7", "$'\\342\\200\\250\\342\\200\\2567'"),
            ("!!\\", "$'\\041\\041\\\\'"),
            ("µ − é", "'µ − é'"),
        ] {
            assert_eq!(shell_word(word), quoted, "{word:?}");
        }
    }

    #[test]
    fn control_characters_are_found_and_escaped() {
        for (text, first, shown) in [
            ("two\nlines\tand µ", None, "two\nlines\tand µ"),
            ("dos\r\n", None, "dos\r\n"),
            ("over\rwritten", Some('\r'), "over\\u{d}written"),
            ("\u{1b}]0;title\u{7}", Some('\u{1b}'), "\\u{1b}]0;title\\u{7}"),
            // CSI in one character.
            ("\u{9b}2J", Some('\u{9b}'), "\\u{9b}2J"),
            ("\u{7f}", Some('\u{7f}'), "\\u{7f}"),
            ("a\u{feff}b\u{202e}", Some('\u{feff}'), "a\\u{feff}b\\u{202e}"),
            ("\u{61c}", Some('\u{61c}'), "\\u{61c}"),
            // A tag, and letters without a shape.
            ("\u{e0041}", Some('\u{e0041}'), "\\u{e0041}"),
            ("\u{3164}", Some('\u{3164}'), "\\u{3164}"),
            ("\u{1160}", Some('\u{1160}'), "\\u{1160}"),
            ("\u{34f}", Some('\u{34f}'), "\\u{34f}"),
            ("≤ 5 · é ß ￥ ؀", None, "≤ 5 · é ß ￥ ؀"),
        ] {
            assert_eq!(control(text), first, "{text:?}");
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn formulas_are_distinguished_from_numbers() {
        for formula in [
            "=cmd()",
            "@SUM(1)",
            "+cmd|' /C calc'!A0",
            "-2+3+cmd|' /C calc'!A0",
            "-1e5(x)",
            "-a1",
            "-",
            "+.",
            "=",
        ] {
            assert!(is_formula(formula), "{formula}");
        }
        for harmless in [
            "",
            "5 %",
            "-5",
            "-3 dB",
            "+1e-3%",
            "-.5",
            "-10 Mbit/s",
            "a=b",
            "lr-xcp",
            "1e-8",
            "-2e",
        ] {
            assert!(!is_formula(harmless), "{harmless}");
        }
    }
}
