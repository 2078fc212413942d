//! `protocol = "quinn:cubic"`: connections of stacks, which are code of other projects.

use std::sync::Arc;

use super::bounds::{MAX_PACKET_SIZE, MAX_SIZE};
use super::parameter;
use crate::scenario::Traffic;
use crate::stack::{Stack, StackConfig, Stacks};
use crate::strict_toml::{Amount, Field, Result, Section, readers};

/// Separator of the names of a stack and its controller. No name in the protocol table contains it.
const SEPARATOR: char = ':';

/// The keys of `[endpoint]` that connections of stacks use; the others are for Windward's own
/// transports.
pub(super) const KEYS: [&str; 4] = ["packet_size", "rwnd", "ecn", "quic"];

/// The stack that a value names; `None` if it names one of Windward's protocols.
pub(super) fn named<'a>(
    field: &Field<'_>,
    stacks: &'a Stacks,
) -> Result<Option<&'a Arc<dyn Stack>>> {
    let name = match field.is_text().then(|| field.text()).transpose()? {
        Some(name) if name.contains(SEPARATOR) => name,
        _ => return Ok(None),
    };
    if let Some(stack) = stacks.find(name) {
        return Ok(Some(stack));
    }
    if let Some(why) = stacks.refused(name) {
        return Err(field
            .error(format!("{name} is not available: {why}"))
            .with_help("`windward list --stacks` lists the available stacks"));
    }
    if name.contains(".py:") {
        return Err(field.error("a class in Python cannot be loaded here").with_help(
            "`windward run --set` and `windward evaluate` load classes; files run no code",
        ));
    }
    let all: Vec<&str> = stacks.iter().map(|stack| stack.facts().name).collect();
    if all.is_empty() {
        return Err(field.error("unknown stack: this program has no stacks").with_help(
            "`windward` has QUIC stacks if it is built with the feature `stacks`, as by default",
        ));
    }
    // The stacks of the named code, if there are any.
    let family = |of: &str| of.split(SEPARATOR).next().unwrap_or_default().to_owned();
    let own: Vec<&str> = all.iter().copied().filter(|of| family(of) == family(name)).collect();
    let valid = if own.is_empty() { all } else { own };
    Err(field.unknown("stack", name, valid))
}

/// The traffic of a group whose `protocol` is this stack.
pub(super) fn read(
    stack: &Arc<dyn Stack>,
    section: &Section<'_>,
    common: Option<&Section<'_>>,
    protocol: &Field<'_>,
) -> Result<Traffic> {
    let mut config = StackConfig::default();
    let tables = || common.into_iter().chain([section]);
    if let Some(field) = tables().filter_map(|table| table.get("packet_size")).next_back() {
        config.packet_size = packet_size(stack.as_ref(), &field, protocol)?;
    }
    for table in tables() {
        let rwnd = table.value("rwnd", &readers::integer(1..=1 << 30))?;
        config.rwnd = rwnd.unwrap_or(config.rwnd);
        config.ecn = table.value("ecn", &readers::flag())?.unwrap_or(config.ecn);
        if let Some(quic) = table.table("quic") {
            config = parameter::read(config, "quic", &quic)?;
        }
    }
    let size = |field: &Field<'_>| {
        let bytes = match field.amount()? {
            Amount::Packets(packets) => packets.saturating_mul(u64::from(config.packet_size)),
            Amount::Bytes(bytes) => bytes,
        };
        match bytes > MAX_SIZE {
            true => Err(field.error(format!("must be at most {MAX_SIZE} bytes"))),
            false => Ok(bytes),
        }
    };
    let bytes = section.get("size").map(|field| size(&field)).transpose()?;
    Ok(Traffic::Stack { stack: Arc::clone(stack), config: Arc::new(config), bytes, arrivals: None })
}

fn packet_size(stack: &dyn Stack, field: &Field<'_>, protocol: &Field<'_>) -> Result<u32> {
    let size = field.small(1..=MAX_PACKET_SIZE)?;
    let facts = stack.facts();
    if facts.packet_sizes.contains(&size) {
        return Ok(size);
    }
    let (least, most) = facts.packet_sizes.clone().into_inner();
    Err(protocol
        .error(format!("{} has packets of {least} to {most} bytes, not of {size}", facts.name))
        .with_help(format!(
            "give these flows a `packet_size`, for instance {} as on Ethernet",
            StackConfig::PACKET_SIZE
        )))
}
