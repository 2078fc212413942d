//! `windward serve` and `windward forward`: TCP and UDP services over one QUIC connection.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration as WallTime;

use tracing_subscriber::filter::LevelFilter;
use windward_core::units::Duration;
use windward_deploy::forward::{
    ForwarderProgram, ForwarderSettings, Limits, Mapping, News, ServerProgram, ServerSettings,
    read_bind,
};
use windward_deploy::{Fingerprint, Identity, address};

use crate::deploy::{ConfigArgs, QlogArgs, TicketArgs};
use crate::failure::Failure;
use crate::output;

/// Options that both programs have.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    config: ConfigArgs,

    /// Congestion controller; `windward list` names those for QUIC
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,

    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    ///
    /// A client has to name the server by its IP address: other names are refused, since pages of
    /// other hosts can have their names resolve to this address.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,

    /// Time that open connections have to end after SIGTERM or Ctrl-C
    #[arg(long, value_name = "TIME", default_value = "300ms")]
    grace: Duration,

    /// Lines on standard error: error, warn, info, debug or trace [default: info for serve, warn
    /// for forward]
    #[arg(long, value_name = "LEVEL")]
    log: Option<LevelFilter>,

    #[command(flatten)]
    qlog: QlogArgs,
}

impl Common {
    fn grace(&self) -> WallTime {
        WallTime::from_secs_f64(self.grace.as_secs_f64())
    }

    fn start_log(&self, default: LevelFilter, quiet: bool) {
        let level = self.log.unwrap_or(if quiet { LevelFilter::ERROR } else { default });
        // Fails if the Python process has a subscriber already, which then has the lines.
        let _ = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .try_init();
    }
}

/// Connect to TCP and UDP services for peers that forward them here
///
/// Peers are accepted by their key: clients of the list (`windward peers list`), those that --allow
/// or --authorized names, and the first one that uses the ticket, which the list has from then on.
/// A change of the lists counts at once, and open connections of other peers go on. SIGTERM lets
/// open connections end within the grace.
#[derive(Debug, clap::Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// UDP address to listen at
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:4460", value_parser = parse_address)]
    listen: SocketAddr,

    /// Targets that the peer of the ticket may reach from then on, as
    /// 127.0.0.1:22,*.example.com:443,10.0.0.0/8:*; with KEY=, those of the peer with this key,
    /// which is thereby accepted for this run
    #[arg(long, value_name = "[KEY=]HOST:PORTS,...")]
    allow: Vec<String>,

    /// A further list of accepted peers, with lines `client NAME KEY HOST:PORTS,...`
    #[arg(long, value_name = "FILE")]
    authorized: Option<PathBuf>,

    /// Print a ticket, which admits the first peer that uses it
    #[arg(long)]
    ticket: bool,

    /// Time for which the ticket is valid
    #[arg(long, value_name = "TIME", default_value = "24h", requires = "ticket")]
    expires: Duration,

    /// Address for the ticket, where this machine is reached by another one than its own
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address, requires = "ticket")]
    advertise: Vec<SocketAddr>,

    /// Forwarded connections that one peer may have at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().streams, value_parser = parse_count)]
    max_connections: usize,

    /// Time after which a connection ends in which neither side says anything
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_silence)]
    idle: Duration,

    /// The same for a connection of which one side has ended its direction
    #[arg(long, value_name = "TIME", default_value = "4min", value_parser = parse_silence)]
    half_closed: Duration,

    /// Datagrams per second that one peer may send to UDP targets
    #[arg(long, value_name = "N", default_value_t = Limits::default().datagrams, value_parser = clap::value_parser!(u32).range(1..))]
    max_datagrams: u32,

    #[command(flatten)]
    common: Common,

    /// Print a unit file for systemd, and do nothing else
    #[arg(long)]
    systemd_unit: bool,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  windward serve --allow 127.0.0.1:22 --ticket
  windward serve --authorized /etc/windward/peers --metrics 127.0.0.1:9470
  windward serve --allow SHA256:UBC...=db.example:5432 --listen 192.0.2.1:4460
  windward serve --systemd-unit > /etc/systemd/system/windward-serve.service";

const UNIT: &str = include_str!("../../../contrib/windward-serve.service");

/// Forward TCP and UDP ports, and SOCKS5, to a server over a link that loses packets
///
/// All connections share one QUIC connection to `windward serve`, which is made anew when it is
/// lost. The end and the reset of a connection arrive as such, and a reader that does not read
/// stops its writer.
#[derive(Debug, clap::Args)]
#[command(after_help = FORWARD_EXAMPLES)]
pub(crate) struct ForwardArgs {
    /// Port to listen at, and target of the server; udp: for datagrams
    #[arg(short = 'L', value_name = "[udp:][BIND:]PORT:HOST:PORT")]
    local: Vec<Mapping>,

    /// Port to listen at for SOCKS5, whose clients name targets of the server
    #[arg(short = 'D', value_name = "[BIND:]PORT", value_parser = read_bind)]
    dynamic: Vec<SocketAddr>,

    /// HOST:PORT of a known server, or, unless --ticket-file or WINDWARD_TICKET has it, the ticket
    /// that the server printed, or `-` to read it from standard input
    server: Option<OsString>,

    #[command(flatten)]
    ticket: TicketArgs,

    /// Key of the server, for the first connection without a ticket
    #[arg(long, value_name = "KEY")]
    server_key: Option<Fingerprint>,

    #[command(flatten)]
    common: Common,

    /// Print the key of this machine, for --allow of a server, and do nothing else
    #[arg(long)]
    print_key: bool,
}

const FORWARD_EXAMPLES: &str = "\
Examples:
  windward forward -L 2222:127.0.0.1:22 --ticket-file ticket    then: ssh -p 2222 127.0.0.1
  windward forward -L 2222:127.0.0.1:22 -            then paste the ticket
  windward forward -L 2222:127.0.0.1:22 TICKET       others on this machine can read it
  windward forward -D 1080 ship.example:4460         then: curl -x socks5h://127.0.0.1:1080 URL
  windward forward -L 8080:web:80 -L udp:5353:10.0.0.1:53 ship.example:4460
  windward forward --print-key";

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let example = "write ADDR:PORT, as 127.0.0.1:4460 or [::]:4460";
    address::parse(text).map_err(|error| format!("{error}; {example}"))
}

fn parse_silence(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(time) if time.as_secs_f64() >= 1.0 => Ok(time),
        Ok(_) => Err("expected at least 1s".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=65_535) => Ok(count),
        _ => Err("expected 1 to 65535".to_owned()),
    }
}

pub(crate) fn serve(args: &ServeArgs, quiet: bool) -> Result<(), Failure> {
    if args.systemd_unit {
        return output::print(UNIT);
    }
    let common = &args.common;
    common.start_log(LevelFilter::INFO, quiet);
    let limits = Limits {
        streams: args.max_connections,
        datagrams: args.max_datagrams,
        idle: WallTime::from_secs_f64(args.idle.as_secs_f64()),
        half_closed: WallTime::from_secs_f64(args.half_closed.as_secs_f64()),
        ..Limits::default()
    };
    let program = ServerProgram {
        directory: common.config.home()?,
        settings: ServerSettings {
            listen: args.listen,
            protocol: common.protocol.clone(),
            qlog: common.qlog.open()?,
            limits,
            metrics: common.metrics,
        },
        allow: args.allow.clone(),
        authorized: args.authorized.clone(),
        ticket: args.ticket.then(|| WallTime::from_secs_f64(args.expires.as_secs_f64())),
        advertise: args.advertise.clone(),
        grace: common.grace(),
    };
    let mut unwritten = None;
    program.run(|news| tell(&news, quiet, &mut unwritten))?;
    unwritten.map_or(Ok(()), Err)
}

pub(crate) fn forward(args: &ForwardArgs, quiet: bool) -> Result<(), Failure> {
    let common = &args.common;
    let directory = common.config.home()?;
    if args.print_key {
        let identity = Identity::open(&directory)?;
        return output::print(&format!("{}\n", identity.fingerprint()));
    }
    if args.local.is_empty() && args.dynamic.is_empty() {
        return Err(Failure::Input(
            "nothing to forward: write -L PORT:HOST:PORT, or -D PORT for SOCKS5".to_owned(),
        ));
    }
    let found = args.ticket.find(args.server.as_deref(), |_| true)?;
    let Some((server, _)) = found else {
        return Err(Failure::Input(
            "a server is required: write --ticket-file FILE, with the ticket of `windward serve \
             --ticket`, or HOST:PORT of a known server"
                .to_owned(),
        ));
    };
    common.start_log(LevelFilter::WARN, quiet);
    let program = ForwarderProgram {
        directory,
        server,
        key: args.server_key,
        protocol: common.protocol.clone(),
        qlog: common.qlog.open()?,
        settings: ForwarderSettings {
            mappings: args.local.clone(),
            socks: args.dynamic.clone(),
            metrics: common.metrics,
        },
        grace: common.grace(),
    };
    let mut unwritten = None;
    program.run(confirm, |news| tell(&news, quiet, &mut unwritten))?;
    unwritten.map_or(Ok(()), Err)
}

/// Asks the user on the terminal, as ssh does; no without one.
fn confirm(name: &str, key: Fingerprint) -> bool {
    let (mut error, input) = (std::io::stderr(), std::io::stdin());
    if !input.is_terminal() || !error.is_terminal() {
        return false;
    }
    let question = format!(
        "{name} is not known. Its key is {key}.\nIs that what `windward serve` printed there (yes/no)? "
    );
    let mut answer = String::new();
    let asked = error.write_all(question.as_bytes()).and_then(|()| error.flush());
    asked.is_ok() && input.read_line(&mut answer).is_ok() && answer.trim() == "yes"
}

/// Tells the user and the service manager.
fn tell(news: &News<'_>, quiet: bool, unwritten: &mut Option<Failure>) {
    use sd_notify::NotifyState;
    // Fails without a service manager, which is not an error.
    let notify = |states: &[NotifyState<'_>]| drop(sd_notify::notify(states));
    let note = |text: String| {
        if !quiet {
            output::note(&text);
        }
    };
    match *news {
        News::Serves(address, key) => {
            note(format!("serving at {address}, key {key}"));
            notify(&[NotifyState::Ready]);
        }
        News::Ticket(ticket) => {
            // The server goes on if nobody reads it; the status tells in the end.
            let printed = output::print(&format!("{ticket}\n"));
            *unwritten = printed.err();
        }
        News::Forwards(addresses) => {
            for address in addresses {
                note(format!("listening at {address}"));
            }
            notify(&[NotifyState::Ready]);
        }
        News::Metrics(address) => note(format!("metrics: http://{address}/metrics")),
        News::Hint(text) => note(text.to_owned()),
        News::Ending => {
            notify(&[NotifyState::Stopping]);
            note("ending; a second signal ends at once".to_owned());
        }
    }
}
