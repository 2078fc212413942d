//! A medium that stations share, as in a wireless LAN (IEEE 802.11): half-duplex, one transmission
//! at a time.
//!
//! Stations access it by the distributed coordination function (DCF; IEEE 802.11-2016 section
//! 10.3). After the medium becomes idle, a station waits for an arbitration interframe space
//! (SIFS and [`MediumConfig::aifsn`] slots) and counts its backoff down, a slot at a time, while
//! the medium is idle. At zero it transmits. Then it draws the next backoff, uniformly from 0 to
//! the contention window, also if nothing waits (10.3.4.3). Stations that begin in the same slot
//! collide: the frames of all of them are lost, and each doubles its contention window up to
//! [`MediumConfig::cw_max`]. Every station has the same chance of access, whatever its rate, so
//! that a slow station takes time from all (Heusse et al. 2003).
//!
//! A transmission (PPDU) is a preamble and one frame, or several frames for the same receiver that
//! are aggregated (A-MPDU). The receiver answers after a SIFS with an ACK, or with a block ACK
//! that says which frames arrived. A frame that did not arrive is transmitted again, up to
//! [`MediumConfig::attempts`] times in all. The receiver delivers frames in order.
//!
//! Simplifications:
//! - All stations hear each other. Collisions destroy all frames (no capture), and RTS and CTS are
//!   not used. Propagation does not count in the time of a slot.
//! - ACKs are never lost. After a collision, all stations wait as after a transmission with an ACK
//!   (EIFS, 10.3.2.3.7).
//! - Beacons, association and power saving take no time. The rate of a station is given.
//! - The end of a frame that arrives while the medium is idle is rounded up to the next slot.

use crate::rng::Stream;
use crate::units::{Duration, Rate, Time};

/// The parameters of a [`Medium`]. The defaults are those of IEEE 802.11n on 5 GHz, access category
/// best effort, one spatial stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumConfig {
    /// Time of a slot, more than 0; 9 us (aSlotTime, IEEE 802.11-2016 table 17-21).
    pub slot: Duration,
    /// Short interframe space; 16 us (aSIFSTime, table 17-21).
    pub sifs: Duration,
    /// Slots of the arbitration interframe space after a SIFS, at least 1; 3 (table 9-137, AC_BE).
    /// 2 is the DIFS of stations without QoS.
    pub aifsn: u32,
    /// The contention window after a success, slots; 15 (aCWmin, table 17-21).
    pub cw_min: u32,
    /// The largest contention window, slots; at least `cw_min`; 1023 (aCWmax, table 17-21).
    pub cw_max: u32,
    /// Maximum number of transmissions of a frame, including the first; 1 to 255; 7
    /// (dot11ShortRetryLimit, annex C).
    pub attempts: u32,
    /// Preamble and header of a PPDU with data; 36 us (HT-mixed format, section 19.3.2: 8 + 8 + 4
    /// + 8 + 4 + 4). Each further spatial stream adds 4 us.
    pub preamble: Duration,
    /// Preamble and header of an ACK; 20 us (section 17.3.2).
    pub control_preamble: Duration,
    /// Rate of ACKs; 24 Mbit/s, a mandatory rate (section 17.2.3.3).
    pub control_rate: Rate,
    /// Time of an OFDM symbol; 4 us (section 17.3.2). The bits of a PPDU, 16 of SERVICE and 6 of
    /// tail included, fill whole symbols. Zero is a PHY without symbols, and without these bits.
    pub symbol: Duration,
    /// Bytes around a packet in a frame: the header of QoS data (26), LLC and SNAP (8) and FCS (4)
    /// (section 9.3.2).
    pub overhead: u32,
    /// Maximum number of frames of a PPDU; 1 without aggregation; up to 256; 64 (window of a block
    /// ACK, section 9.3.1.9).
    pub frames: u32,
    /// Maximum size of an aggregate, bytes; 65535 (section 9.4.2.56).
    pub aggregate: u32,
    /// Maximum time of an aggregate; 5.484 ms (aPPDUMaxTime, table 19-25).
    pub longest: Duration,
}

impl Default for MediumConfig {
    fn default() -> Self {
        MediumConfig {
            slot: Duration::from_micros(9),
            sifs: Duration::from_micros(16),
            aifsn: 3,
            cw_min: 15,
            cw_max: 1023,
            attempts: 7,
            preamble: Duration::from_micros(36),
            control_preamble: Duration::from_micros(20),
            control_rate: const {
                match Rate::from_bps(24_000_000) {
                    Some(rate) => rate,
                    None => panic!("a rate is not zero"),
                }
            },
            symbol: Duration::from_micros(4),
            overhead: 38,
            frames: 64,
            aggregate: 65_535,
            longest: Duration::from_micros(5484),
        }
    }
}

/// Bytes of an ACK (IEEE 802.11-2016 section 9.3.1.4).
const ACK: u64 = 14;
/// Bytes of a compressed block ACK (section 9.3.1.9).
const BLOCK_ACK: u64 = 32;
/// Bytes of the delimiter of a frame in an aggregate (section 9.7.1); each frame is padded to a
/// multiple of 4.
const DELIMITER: u64 = 4;
/// Bits of SERVICE and tail around the bits of a PPDU (sections 17.3.5.2 and 17.3.5.3).
const SERVICE_AND_TAIL: u64 = 16 + 6;

impl MediumConfig {
    /// Largest contention window, slots.
    pub const MOST_CW: u32 = 65_535;
    /// Largest number of slots of an arbitration interframe space.
    pub const MOST_AIFSN: u32 = 255;
    /// Largest number of attempts at a frame.
    pub const MOST_ATTEMPTS: u32 = 255;
    /// Largest number of frames of a PPDU.
    pub const MOST_FRAMES: u32 = 256;
    /// Largest overhead of a frame, bytes.
    pub const MOST_OVERHEAD: u32 = 1000;
    /// Largest aggregate, bytes.
    pub const MOST_AGGREGATE: u32 = 16_777_215;
    /// Longest of the times.
    pub const LONGEST: Duration = Duration::from_millis(100);

    /// Checks the ranges of the values.
    ///
    /// # Errors
    /// The first value out of range, as a sentence without a capital or a full stop.
    pub fn validate(&self) -> Result<(), String> {
        let times = [self.sifs, self.preamble, self.control_preamble, self.symbol];
        if times.into_iter().any(|time| time > Self::LONGEST) {
            return Err(format!("its times must be at most {}", Self::LONGEST));
        }
        for (name, time) in [("slot", self.slot), ("longest aggregate", self.longest)] {
            if time.is_zero() || time > Self::LONGEST {
                return Err(format!("its {name} must be above 0, up to {}", Self::LONGEST));
            }
        }
        if self.cw_min > self.cw_max {
            return Err(format!(
                "its least contention window ({}) must not be greater than the largest ({})",
                self.cw_min, self.cw_max
            ));
        }
        let numbers = [
            ("number of slots", self.aifsn, 1, Self::MOST_AIFSN),
            ("largest contention window", self.cw_max, 0, Self::MOST_CW),
            ("number of attempts", self.attempts, 1, Self::MOST_ATTEMPTS),
            ("number of frames", self.frames, 1, Self::MOST_FRAMES),
            ("overhead", self.overhead, 0, Self::MOST_OVERHEAD),
            ("largest aggregate", self.aggregate, 1, Self::MOST_AGGREGATE),
        ];
        for (name, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                return Err(format!("its {name} must be {least} to {most}, not {value}"));
            }
        }
        Ok(())
    }

    /// Time of a PPDU with `bytes` at a rate.
    pub fn data_time(&self, rate: Rate, bytes: u64) -> Duration {
        self.preamble + self.payload_time(rate, bytes)
    }

    /// Time from the end of the data to the end of the answer: a SIFS and an ACK, or a block ACK.
    pub fn answer_time(&self, is_block: bool) -> Duration {
        let bytes = if is_block { BLOCK_ACK } else { ACK };
        self.sifs + self.control_preamble + self.payload_time(self.control_rate, bytes)
    }

    /// Bytes of a packet of `size` bytes in a PPDU, in an aggregate or alone.
    pub fn frame_bytes(&self, size: u32, is_aggregated: bool) -> u64 {
        let bytes = u64::from(size) + u64::from(self.overhead);
        if is_aggregated { (bytes + DELIMITER).next_multiple_of(4) } else { bytes }
    }

    /// True if an aggregate of `bytes` is within the limits of size and time.
    pub fn allows(&self, rate: Rate, bytes: u64) -> bool {
        bytes <= u64::from(self.aggregate) && self.data_time(rate, bytes) <= self.longest
    }

    fn payload_time(&self, rate: Rate, bytes: u64) -> Duration {
        const PS_PER_S: u128 = 1_000_000_000_000;
        let bps = u128::from(rate.as_bps());
        let (bits, symbol) = (u128::from(bytes) * 8, u128::from(self.symbol.as_ps()));
        let ps = if symbol == 0 {
            (bits * PS_PER_S).div_ceil(bps)
        } else {
            // Bits of a symbol are the rate times its time.
            ((bits + u128::from(SERVICE_AND_TAIL)) * PS_PER_S).div_ceil(bps * symbol) * symbol
        };
        Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// The contention window after this many failures in a row, slots.
    fn contention_window(&self, failures: u32) -> u32 {
        let doubled = (u64::from(self.cw_min) + 1) << failures.min(32);
        u32::try_from(doubled - 1).unwrap_or(u32::MAX).min(self.cw_max)
    }
}

/// The state of a medium: the contention of its stations. It knows stations by their index; the
/// caller has their frames.
///
/// 1. [`Medium::contend`] when a station has something to transmit.
/// 2. [`Medium::next_access`] returns the time of the next transmission.
/// 3. [`Medium::begin`] then returns the stations that transmit, and [`Medium::end`] takes what
///    became of it.
#[derive(Debug)]
pub struct Medium {
    config: MediumConfig,
    stations: Vec<Station>,
    /// The end of the latest transmission with its answer: slots count from a SIFS later.
    free: Time,
}

/// A station that contends.
#[derive(Debug)]
struct Station {
    /// Slots to count down after the arbitration interframe space, from [`Medium::free`] on.
    backoff: u64,
    /// Failures in a row.
    failures: u32,
    /// The first slot in which it may transmit; `None` if nothing waits.
    from: Option<u64>,
    stream: Stream,
}

impl Station {
    fn draw(&mut self, config: &MediumConfig) {
        let places = f64::from(config.contention_window(self.failures)) + 1.0;
        self.backoff = (self.stream.uniform() * places) as u64;
    }

    /// The slot in which it transmits, if it does.
    fn access(&self, config: &MediumConfig) -> Option<u64> {
        self.from.map(|from| from.max(u64::from(config.aifsn) + self.backoff))
    }
}

/// The outcome of a transmission for its station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmission {
    /// The time at which the data ends.
    pub end: Time,
    /// True if more than one frame was in it.
    pub is_aggregated: bool,
    /// True if at least one frame was acknowledged.
    pub is_acknowledged: bool,
}

impl Medium {
    /// An idle medium for a number of stations; `name` names their random streams.
    pub fn new(config: &MediumConfig, stations: usize, seed: u64, name: &str) -> Self {
        let station = |index| {
            let stream = Stream::new(seed, "backoff", &format!("{name}/{index}"));
            Station { backoff: 0, failures: 0, from: None, stream }
        };
        Medium {
            config: config.clone(),
            stations: (0..stations).map(station).collect(),
            free: Time::ZERO,
        }
    }

    /// Its parameters.
    pub fn config(&self) -> &MediumConfig {
        &self.config
    }

    /// A station has something to transmit from `now` on; no effect if it already had.
    ///
    /// It needs no backoff if the medium has been idle for an arbitration interframe space and the
    /// station has counted its last backoff down (IEEE 802.11-2016 section 10.3.4.2).
    pub fn contend(&mut self, now: Time, station: usize) {
        let Medium { config, stations, free } = self;
        let station = &mut stations[station];
        if station.from.is_some() {
            return;
        }
        let idle = now.since(*free + config.sifs).as_ps();
        let slot = idle.div_ceil(config.slot.as_ps());
        if slot < u64::from(config.aifsn) && station.backoff == 0 {
            station.draw(config);
        }
        station.from = Some(slot);
    }

    /// The time of the next transmission; [`Time::NEVER`] if no station has anything to transmit.
    pub fn next_access(&self) -> Time {
        let first = self.stations.iter().filter_map(|station| station.access(&self.config)).min();
        match first {
            Some(slot) => self.free + self.config.sifs + self.config.slot.saturating_mul(slot),
            None => Time::NEVER,
        }
    }

    /// The stations that transmit at the [next access](Medium::next_access), in their order.
    pub fn begin(&self, transmitting: &mut Vec<usize>) {
        let slots = || self.stations.iter().map(|station| station.access(&self.config));
        let first = slots().flatten().min();
        let all = slots().enumerate();
        transmitting.clear();
        transmitting
            .extend(all.filter(|(_, slot)| slot.is_some() && *slot == first).map(|(i, _)| i));
    }

    /// Takes what became of the access of each station: its transmission, or `None` if nothing was
    /// left to transmit, and whether something waits now.
    pub fn end(&mut self, accesses: &[(usize, Option<Transmission>, bool)]) {
        let Medium { config, stations, free } = self;
        let sent = || accesses.iter().filter_map(|(_, transmission, _)| *transmission);
        let end = sent().map(|sent| sent.end + config.answer_time(sent.is_aggregated)).max();
        let slot = accesses.first().and_then(|(first, ..)| stations[*first].access(config));
        if let (Some(end), Some(slot)) = (end, slot) {
            let counted = slot.saturating_sub(config.aifsn.into());
            for station in stations.iter_mut() {
                station.backoff = station.backoff.saturating_sub(counted);
                station.from = station.from.map(|_| 0);
            }
            *free = end;
        }
        for (index, transmission, waits) in accesses {
            let station = &mut stations[*index];
            station.from = waits.then_some(0);
            let Some(sent) = transmission else { continue };
            station.failures = if sent.is_acknowledged { 0 } else { station.failures + 1 };
            // Given up: the next frame begins anew.
            if station.failures >= config.attempts {
                station.failures = 0;
            }
            station.draw(config);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn mbit(mbit: u64) -> Rate {
        Rate::from_bps(mbit * 1_000_000).unwrap()
    }

    #[test]
    fn times_by_hand() {
        // 802.11n, one stream, 65 Mbit/s: 260 bits a symbol. A packet of 1500 bytes alone is 1538
        // bytes, 12304 + 22 bits: 47.4, thus 48 symbols of 4 us after 36 us.
        let config = MediumConfig::default();
        assert_eq!(config.frame_bytes(1500, false), 1538);
        assert_eq!(config.data_time(mbit(65), 1538), us(36 + 48 * 4));
        // In an aggregate 1538 + 4 = 1542, padded to 1544.
        assert_eq!(config.frame_bytes(1500, true), 1544);
        // At 24 Mbit/s 96 bits a symbol. An ACK of 112 + 22 bits has 2 symbols, a block ACK of 256
        // + 22 has 3.
        assert_eq!(config.answer_time(false), us(16 + 20 + 2 * 4));
        assert_eq!(config.answer_time(true), us(16 + 20 + 3 * 4));
        // Without symbols, as DSSS at 1 Mbit/s: 192 us and 8 us a byte.
        let dsss = MediumConfig { preamble: us(192), symbol: Duration::ZERO, ..config };
        assert_eq!(dsss.data_time(mbit(1), 1538), us(192 + 12_304));
    }

    #[test]
    fn limits_of_an_aggregate() {
        // 42 frames of 1544 bytes are 64 848 bytes, 43 are 66 392. At 6.5 Mbit/s the time is the
        // limit: 26 bits a symbol, (5484 - 36) / 4 = 1362 symbols, 35 412 bits less 22, 4423 bytes.
        let config = MediumConfig::default();
        assert!(config.allows(mbit(130), 42 * 1544) && !config.allows(mbit(130), 43 * 1544));
        let slow = Rate::from_bps(6_500_000).unwrap();
        assert!(config.allows(slow, 4423) && !config.allows(slow, 4424));
    }

    #[test]
    fn windows_double_up_to_the_largest() {
        let config = MediumConfig::default();
        let windows: Vec<_> = (0..9).map(|failures| config.contention_window(failures)).collect();
        assert_eq!(windows, [15, 31, 63, 127, 255, 511, 1023, 1023, 1023]);
        assert_eq!(config.contention_window(u32::MAX), 1023);
        let fixed = MediumConfig { cw_min: 0, cw_max: 0, ..config };
        assert_eq!(fixed.contention_window(5), 0);
    }

    #[test]
    fn a_station_alone_transmits_at_once_after_its_backoff() {
        let mut medium = Medium::new(&MediumConfig::default(), 1, 1, "test");
        // The medium has been idle for an AIFS, 16 + 27 us, when the first frame comes at 50 us:
        // (50 - 16) / 9 = 3.8, thus in slot 4, at 52 us.
        medium.contend(Time::ZERO + us(50), 0);
        assert_eq!(medium.next_access(), Time::ZERO + us(52));
        let end = Time::ZERO + us(52 + 200);
        let sent = Transmission { end, is_aggregated: false, is_acknowledged: true };
        medium.end(&[(0, Some(sent), false)]);
        assert_eq!(medium.next_access(), Time::NEVER);
        // The answer ends 44 us later. A frame that comes after the longest backoff needs none.
        let free = end + us(44);
        medium.contend(free + us(16 + 9 * 30), 0);
        assert_eq!(medium.next_access(), free + us(16 + 9 * 30));
    }

    #[test]
    fn a_frame_that_finds_the_medium_busy_needs_a_backoff() {
        let config = MediumConfig { cw_min: 7, ..MediumConfig::default() };
        let mut slots = Vec::new();
        for seed in 0..400 {
            let mut medium = Medium::new(&config, 1, seed, "test");
            medium.contend(Time::ZERO, 0);
            let slot = medium.next_access().since(Time::ZERO + us(16)).as_ps() / us(9).as_ps();
            slots.push(slot);
        }
        // From AIFSN to AIFSN + CW, all of them.
        for slot in 3..=10 {
            assert!(slots.contains(&slot), "{slot}");
        }
        assert!(slots.iter().all(|slot| (3..=10).contains(slot)));
    }

    #[test]
    fn backoffs_freeze_while_the_medium_is_busy() {
        let mut medium = Medium::new(&MediumConfig::default(), 2, 3, "test");
        medium.stations[0].backoff = 2;
        medium.stations[1].backoff = 9;
        medium.contend(Time::ZERO, 0);
        medium.contend(Time::ZERO, 1);
        let mut transmitting = Vec::new();
        medium.begin(&mut transmitting);
        assert_eq!(transmitting, [0]);
        let end = Time::ZERO + us(500);
        let sent = Transmission { end, is_aggregated: false, is_acknowledged: true };
        medium.end(&[(0, Some(sent), false)]);
        // Two of its nine slots are over: after 44 us of answer a SIFS, 3 slots and 7.
        assert_eq!(medium.next_access(), end + us(44 + 16 + 9 * (3 + 7)));
    }

    #[test]
    fn stations_in_one_slot_collide_and_double_their_windows() {
        let mut medium = Medium::new(&MediumConfig::default(), 3, 3, "test");
        for station in 0..2 {
            medium.stations[station].backoff = 5;
            medium.contend(Time::ZERO, station);
        }
        let mut transmitting = Vec::new();
        medium.begin(&mut transmitting);
        assert_eq!(transmitting, [0, 1]);
        let lost = |end| Transmission {
            end: Time::ZERO + us(end),
            is_aggregated: false,
            is_acknowledged: false,
        };
        medium.end(&[(0, Some(lost(300)), true), (1, Some(lost(400)), true)]);
        assert_eq!(medium.free, Time::ZERO + us(444));
        assert_eq!(medium.stations.iter().map(|s| s.failures).collect::<Vec<_>>(), [1, 1, 0]);
        // Nobody had anything left to transmit: nothing happens.
        let before = medium.next_access();
        medium.begin(&mut transmitting);
        let void: Vec<_> = transmitting.iter().map(|station| (*station, None, true)).collect();
        medium.end(&void);
        assert_eq!(medium.next_access(), before);
    }
}
