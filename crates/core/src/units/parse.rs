//! Units as people write them: `5Mbit`, `20 Mbps`, `50ms`, `1e-6`, `5%`, `64kB`.
//!
//! A quantity is a decimal number and a unit, with or without a space between. Numbers are
//! read as exact decimals and not as floating point, so that what is displayed reads back as
//! the very same value, and the same text means the same on every machine.

use std::fmt;
use std::str::FromStr;

use super::{Duration, Probability, Rate};

/// The reason why a text is not a quantity: the error and the expected form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseUnitError {
    text: String,
    kind: &'static Quantity,
    reason: String,
}

impl ParseUnitError {
    /// The error without the offending text, for messages that quote it themselves.
    pub fn reason(&self) -> &str {
        &self.reason
    }
    /// The expected form, as a sentence.
    pub fn expected(&self) -> &'static str {
        self.kind.expected
    }
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseUnitError { text, kind, reason } = self;
        write!(f, "{text:?} is not {}: {reason}; {}", kind.name, kind.expected)
    }
}
impl std::error::Error for ParseUnitError {}

/// A number of bytes: `1000`, `1000B`, `64kB`, `10M`, `1GiB`.
///
/// # Errors
/// If the text is anything else, or the number exceeds 2^63.
pub fn parse_bytes(text: &str) -> Result<u64, ParseUnitError> {
    let (number, unit) = BYTES.split(text)?;
    let scale =
        if unit.is_empty() { 1 } else { BYTES.scale(text, unit, str::eq_ignore_ascii_case)? };
    if !number.is_whole(scale) {
        return Err(BYTES.error(text, "a part of a byte"));
    }
    match number.times(scale) {
        Some(bytes) if bytes <= 1 << 63 => Ok(bytes as u64),
        _ => Err(BYTES.error(text, "more than 2^63 bytes")),
    }
}

/// `5Mbit`, `20 Mbps`, `1.5Gbit/s`; prefixes in any case, always decimal.
impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let (number, unit) = RATE.split(text)?;
        // `MBps` is megabytes to some and megabits to others: refuse to guess.
        if unit.ends_with("Bps") || unit.ends_with("B/s") {
            return Err(RATE.error(text, format!("{unit:?} counts bytes and rates count bits")));
        }
        let scale = RATE.scale(text, unit, |spelling, unit| {
            let unit = unit.to_ascii_lowercase();
            let prefix = ["bit/s", "bps", "bit"].iter().find_map(|tail| unit.strip_suffix(tail));
            let spelling = spelling.to_ascii_lowercase();
            prefix.is_some() && prefix == spelling.strip_suffix("bit")
        })?;
        match number.times(scale) {
            Some(bps) if bps <= u128::from(u64::MAX) => Rate::from_bps(bps as u64)
                .ok_or_else(|| RATE.error(text, "a rate is at least 1 bit/s")),
            _ => Err(RATE.error(text, "a rate this large cannot be represented")),
        }
    }
}

/// `20ms`, `1.5 s`, `10min`, `1h`, `320ps`; zero needs no unit.
impl FromStr for Duration {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let (number, unit) = DURATION.split(text)?;
        if unit.is_empty() && number.digits == 0 {
            return Ok(Duration::ZERO);
        }
        // Both code points that print as the letter mu.
        let unit = match unit {
            "µs" | "μs" => "us",
            other => other,
        };
        let scale = DURATION.scale(text, unit, |spelling, unit| spelling == unit)?;
        match number.times(scale) {
            Some(ps) if ps <= u128::from(u64::MAX) => Ok(Duration(ps as u64)),
            _ => Err(DURATION.error(text, "longer than the 213 days that can be represented")),
        }
    }
}

/// `0.05`, `5%`, `1e-6`; between 0 and 1.
impl FromStr for Probability {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let (number, unit) = PROBABILITY.split(text)?;
        let shift = match unit {
            "" => 0,
            "%" => -2,
            _ => return Err(PROBABILITY.unknown_unit(text, unit)),
        };
        let number = number.to_f64(shift);
        Probability::new(number).ok_or_else(|| {
            // No guess for `500%`.
            let meant = if unit.is_empty() { number } else { f64::NAN };
            PROBABILITY.error(text, Probability::refusal(meant))
        })
    }
}

impl Probability {
    /// The reason why [`Probability::new`] refuses a number, with a guess at the intended one.
    pub fn refusal(number: f64) -> String {
        let range = "a probability must lie between 0 and 1";
        // 1.5 is as likely a slip of another kind as a percentage.
        if !(2.0..=100.0).contains(&number) {
            return range.to_owned();
        }
        format!("{range}: for {number} percent write {number}% or {}", number / 100.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RATE.display(self.0, f)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        DURATION.display(self.0, f)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Both forms of the standard library read back as the same number.
        if self.0 != 0.0 && self.0 < 1e-3 {
            write!(f, "{:e}", self.0)
        } else {
            write!(f, "{}", self.0)
        }
    }
}

/// A kind of quantity: its name and its units.
#[derive(Debug, PartialEq, Eq)]
struct Quantity {
    name: &'static str,
    expected: &'static str,
    /// True if units are read in upper and lower case alike.
    any_case: bool,
    /// Units with their sizes in the smallest one, from small to large.
    units: &'static [(&'static str, u64)],
    /// The number of units, from the first, in which values are displayed.
    displayed: usize,
}

static RATE: Quantity = Quantity {
    name: "a rate",
    expected: "write a number and bit, kbit, Mbit, Gbit or Tbit (per second), as in 5Mbit",
    any_case: true,
    units: &[
        ("bit", 1),
        ("kbit", 1_000),
        ("Mbit", 1_000_000),
        ("Gbit", 1_000_000_000),
        ("Tbit", 1_000_000_000_000),
    ],
    displayed: 5,
};

static DURATION: Quantity = Quantity {
    name: "a time",
    expected: "write a number and ps, ns, us, ms, s, min or h, as in 20ms",
    any_case: false,
    units: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", super::PS_PER_S),
        ("min", 60 * super::PS_PER_S),
        ("h", 3600 * super::PS_PER_S),
    ],
    displayed: 5,
};

static PROBABILITY: Quantity = Quantity {
    name: "a probability",
    expected: "write a number from 0 to 1 or a percentage, as in 0.05, 1e-6 or 5%",
    any_case: false,
    units: &[("%", 1)],
    displayed: 0,
};

static BYTES: Quantity = Quantity {
    name: "a number of bytes",
    expected: "write a number and B, kB, MB, GB, KiB, MiB or GiB, as in 64kB",
    any_case: true,
    units: &[
        ("B", 1),
        ("k", 1_000),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("M", 1_000_000),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("G", 1_000_000_000),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("T", 1_000_000_000_000),
        ("TB", 1_000_000_000_000),
        ("TiB", 1 << 40),
    ],
    displayed: 0,
};

impl Quantity {
    fn error(&'static self, text: &str, reason: impl Into<String>) -> ParseUnitError {
        ParseUnitError { text: shorten(text), kind: self, reason: reason.into() }
    }

    fn unknown_unit(&'static self, text: &str, unit: &str) -> ParseUnitError {
        if unit.is_empty() {
            return self.error(text, "the unit is missing");
        }
        if let Some(whole) = self.completion(text, unit) {
            return self.error(text, format!("the unit {unit:?} is cut short, write {whole}"));
        }
        let unit = shorten(unit);
        let distance = |name: &str| {
            strsim::levenshtein(&name.to_ascii_lowercase(), &unit.to_ascii_lowercase())
        };
        let nearest = self.units.iter().map(|(name, _)| name);
        let nearest = nearest.min_by_key(|name| distance(name)).unwrap_or(&"");
        self.error(text, format!("unknown unit {unit:?}, did you mean {nearest:?}?"))
    }

    /// The text completed to a whole unit, in the spelling of its writer and in ours, if `unit` is
    /// the beginning of one: `10m` becomes `10mbit (or 10Mbit)`.
    fn completion(&self, text: &str, unit: &str) -> Option<String> {
        let number = text.trim().strip_suffix(unit)?.trim();
        let begins = |name: &&str| {
            let head = name.get(..unit.len());
            head.is_some_and(|head| match self.any_case {
                true => head.eq_ignore_ascii_case(unit),
                false => head == unit,
            })
        };
        let name = self.units.iter().map(|(name, _)| *name).find(begins)?;
        let rest = &name[unit.len()..];
        Some(match name.starts_with(unit) {
            true => format!("{number}{name}"),
            false => format!("{number}{unit}{rest} (or {number}{name})"),
        })
    }

    /// The number and the unit of a text.
    fn split<'a>(&'static self, text: &'a str) -> Result<(Decimal, &'a str), ParseUnitError> {
        let trimmed = text.trim();
        if let Some(rest) = trimmed.strip_prefix('-') {
            let negative = rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            let reason = if negative { "it is negative" } else { "it is not a number" };
            return Err(self.error(text, reason));
        }
        let unsigned = trimmed.strip_prefix('+').unwrap_or(trimmed);
        let (number, unit) = unsigned.split_at(number_length(unsigned));
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(self.error(text, "it does not begin with a number"));
        }
        match Decimal::parse(number) {
            Some(number) => Ok((number, unit.trim())),
            None => Err(self.error(text, "the number has too many digits")),
        }
    }

    /// The size of `unit`, which `matches` compares with the spellings known.
    fn scale(
        &'static self,
        text: &str,
        unit: &str,
        matches: impl Fn(&str, &str) -> bool,
    ) -> Result<u64, ParseUnitError> {
        let known = self.units.iter().find(|(name, _)| matches(name, unit));
        known.map(|&(_, size)| size).ok_or_else(|| self.unknown_unit(text, unit))
    }

    /// `count` of the smallest unit, exactly, in the largest unit that makes it at least one.
    fn display(&self, count: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units[..self.displayed].iter().rev();
        let (name, size) = units.copied().find(|&(_, size)| size <= count).unwrap_or(self.units[0]);
        let (whole, part) = (count / size, count % size);
        if part == 0 {
            return write!(f, "{whole}{name}");
        }
        // The sizes displayed are powers of ten: the remainder is the decimal fraction.
        let digits = size.ilog10() as usize;
        let fraction = format!("{part:0digits$}");
        write!(f, "{whole}.{}{name}", fraction.trim_end_matches('0'))
    }
}

/// Length of the number at the start of a text: digits, a point, an exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// An exact decimal number: `digits` times ten to the power of `exponent`.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// The number in a text accepted by [`number_length`], if it has at most 36 digits.
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent),
            None => (text, "0"),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let mut digits: u128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits.checked_mul(10)? + u128::from(digit - b'0');
            if digits >= 10_u128.pow(36) {
                return None;
            }
        }
        // Exponents beyond any use saturate: times() and to_f64() stay correct.
        let exponent: i32 = match exponent.parse() {
            Ok(exponent) => exponent,
            Err(_) if exponent.starts_with('-') => i32::MIN / 2,
            Err(_) => i32::MAX / 2,
        };
        let exponent = exponent
            .clamp(i32::MIN / 2, i32::MAX / 2)
            .checked_sub(i32::try_from(fraction.len()).ok()?)?;
        Some(Decimal { digits, exponent })
    }

    /// The number times `scale`, rounded to the nearest whole number; `None` beyond 2^128.
    fn times(self, scale: u64) -> Option<u128> {
        if self.digits == 0 {
            return Some(0);
        }
        // Below 10^36 * 2^64 only with fewer digits: divide before the product overflows.
        let power = 10_u128.checked_pow(self.exponent.unsigned_abs());
        match (self.exponent >= 0, power) {
            (true, power) => self.digits.checked_mul(u128::from(scale))?.checked_mul(power?),
            (false, None) => Some(0),
            (false, Some(power)) => {
                // digits * scale / power with the quotient and the remainder of the digits apart.
                let (whole, part) = (self.digits / power, self.digits % power);
                let whole = whole.checked_mul(u128::from(scale))?;
                let part = match part.checked_mul(u128::from(scale)) {
                    Some(product) => {
                        product / power + u128::from(product % power >= power.div_ceil(2))
                    }
                    // A fraction of more than 20 digits: its last ones are beyond rounding.
                    None => part / (power / u128::from(scale).max(1)).max(1),
                };
                whole.checked_add(part)
            }
        }
    }

    /// True if the number times `scale` is a whole number.
    fn is_whole(self, scale: u64) -> bool {
        let Some(power) = 10_u128.checked_pow(self.exponent.min(0).unsigned_abs()) else {
            return self.digits == 0;
        };
        let rest = self.digits % power;
        rest.checked_mul(u128::from(scale)).is_some_and(|rest| rest % power == 0)
    }

    /// The number times ten to the power of `shift`, correctly rounded.
    fn to_f64(self, shift: i32) -> f64 {
        let exponent = self.exponent.saturating_add(shift);
        format!("{}e{exponent}", self.digits).parse().unwrap_or(f64::NAN)
    }
}

/// The first part of a text, for messages.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(text: &str) -> u64 {
        text.parse::<Rate>().unwrap().as_bps()
    }
    fn ps(text: &str) -> u64 {
        text.parse::<Duration>().unwrap().as_ps()
    }

    #[test]
    fn rates_in_every_spelling() {
        assert_eq!(rate("5Mbit"), 5_000_000);
        assert_eq!(rate("20 Mbps"), 20_000_000);
        assert_eq!(rate("20mbit"), 20_000_000);
        assert_eq!(rate("1.5Gbit/s"), 1_500_000_000);
        assert_eq!(rate(" 100KBIT "), 100_000);
        assert_eq!(rate("1bit"), 1);
        assert_eq!(rate("1bps"), 1);
        assert_eq!(rate("1Tbit"), 1_000_000_000_000);
        assert_eq!(rate("1e3kbit"), 1_000_000);
        assert_eq!(rate(".5kbit"), 500);
    }

    #[test]
    fn durations_in_every_unit() {
        assert_eq!(ps("320ps"), 320);
        assert_eq!(ps("1.5ns"), 1_500);
        assert_eq!(ps("1us"), 1_000_000);
        assert_eq!(ps("1µs"), 1_000_000);
        assert_eq!(ps("1μs"), 1_000_000);
        assert_eq!(ps("0.1 ms"), 100_000_000);
        assert_eq!(ps("20s"), 20_000_000_000_000);
        assert_eq!(ps("2min"), 120_000_000_000_000);
        assert_eq!(ps("1h"), 3_600_000_000_000_000);
        assert_eq!(ps("0"), 0);
        assert_eq!(ps("0.4ps"), 0);
        assert_eq!(ps("0.5ps"), 1);
        // More digits than 64 bits hold, and a product that 128 bits cannot hold.
        assert_eq!(ps("0.333333333333333333333333333333333333s"), 333_333_333_333);
    }

    #[test]
    fn probabilities_and_percentages() {
        let p = |text: &str| text.parse::<Probability>().unwrap().get();
        assert_eq!(p("0.05"), 0.05);
        assert_eq!(p("5%"), 0.05);
        assert_eq!(p("1e-6"), 1e-6);
        assert_eq!(p("100 %"), 1.0);
        assert_eq!(p("0"), 0.0);
        assert_eq!(p("1e-999999999999"), 0.0);
    }

    #[test]
    fn bytes_decimal_and_binary() {
        assert_eq!(parse_bytes("1000"), Ok(1000));
        assert_eq!(parse_bytes("1000B"), Ok(1000));
        assert_eq!(parse_bytes("64kB"), Ok(64_000));
        assert_eq!(parse_bytes("10M"), Ok(10_000_000));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("1.5k"), Ok(1500));
        assert_eq!(parse_bytes("8388608TiB"), Ok(1 << 63));
    }

    fn message<T: FromStr<Err = ParseUnitError> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn errors_say_what_would_be_right() {
        assert_eq!(
            message::<Rate>("5 Mbits"),
            "\"5 Mbits\" is not a rate: unknown unit \"Mbits\", did you mean \"Mbit\"?; write a \
             number and bit, kbit, Mbit, Gbit or Tbit (per second), as in 5Mbit"
        );
        for (text, write) in [
            ("10m", "10mbit (or 10Mbit)"),
            ("10M", "10Mbit"),
            ("1.5 G", "1.5Gbit"),
            ("10mb", "10mbit (or 10Mbit)"),
            ("100k", "100kbit"),
            ("3b", "3bit"),
        ] {
            let message = message::<Rate>(text);
            assert!(message.contains(&format!(" is cut short, write {write};")), "{message}");
        }
        assert!(message::<Duration>("2mi").contains("write 2min;"));
        assert!(message::<Rate>("5").contains("the unit is missing"));
        assert!(message::<Rate>("0bit").contains("at least 1 bit/s"));
        assert!(message::<Rate>("-5Mbit").contains("negative"));
        assert!(message::<Rate>("nan").contains("does not begin with a number"));
        assert!(message::<Rate>("-inf").contains("not a number"));
        assert!(message::<Rate>("5MBps").contains("counts bytes"));
        assert!(message::<Rate>("99999999999999999999Tbit").contains("cannot be represented"));
        assert!(message::<Rate>("1e99999999999bit").contains("cannot be represented"));
        assert!(message::<Duration>("20sec").contains("did you mean \"s\"?"));
        assert!(message::<Duration>("20").contains("the unit is missing"));
        assert!(message::<Duration>("300000h").contains("213 days"));
        assert!(message::<Probability>("1.5").contains("between 0 and 1"));
        assert!(message::<Probability>("101%").contains("between 0 and 1;"));
        assert!(message::<Probability>("5").contains("for 5 percent write 5% or 0.05;"));
        assert!(message::<Probability>("1.5").contains("between 0 and 1;"));
        assert!(message::<Probability>("5 percent").contains("did you mean \"%\"?"));
        let bytes = |text| parse_bytes(text).unwrap_err().to_string();
        assert!(bytes("4ki").contains("write 4kiB (or 4KiB);"));
        assert!(bytes("64 kbyte").contains("did you mean \"kB\"?"));
        assert!(bytes("0.5B").contains("part of a byte"));
        assert!(bytes("8388609TiB").contains("2^63"));
        assert!(bytes("").contains("does not begin with a number"));
        assert!(bytes(&"9".repeat(200)).contains("too many digits"));
    }

    #[test]
    fn display_is_what_people_write() {
        for text in ["5Mbit", "1.5Gbit", "1bit", "1.234567Mbit", "100Tbit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["20ms", "1.5s", "0s", "320ps", "90s", "1.6ms"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        for text in ["0.05", "1e-6", "0", "1", "2.5e-4"] {
            assert_eq!(text.parse::<Probability>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn displayed_rates_read_back(bps in 1..=u64::MAX) {
            let rate = Rate::from_bps(bps).unwrap();
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn displayed_durations_read_back(ps in 0..=u64::MAX) {
            let duration = Duration::from_ps(ps);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn displayed_probabilities_read_back(p in 0.0..=1.0) {
            let p = Probability::new(p).unwrap();
            prop_assert_eq!(p.to_string().parse(), Ok(p));
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9.eE]{0,30} ?[a-zA-Zµ%/]{0,6}|\\PC*") {
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Duration>();
            let _ = text.parse::<Probability>();
            let _ = parse_bytes(&text);
        }
    }
}
