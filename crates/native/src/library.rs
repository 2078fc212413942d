//! The tables of `windward_controller.h`, and calls into a library. The only unsafe code of the
//! crate: a foreign function is trusted to keep to the header, since nothing can check it. What it
//! returns is checked.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;

use crate::watch::{self, Call};

/// `WINDWARD_CONTROLLER_VERSION`.
const VERSION: u32 = 1;
/// `WINDWARD_NEEDS_RATES`.
const NEEDS_RATES: u32 = 1;

/// `struct windward_setup`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Setup {
    pub(crate) packet_size: u64,
    pub(crate) initial_window: u64,
    pub(crate) seed: u64,
}

/// `struct windward_ack`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Ack {
    pub(crate) now_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) growth_bytes: u64,
    pub(crate) rtt_ns: u64,
    pub(crate) min_rtt_ns: u64,
    pub(crate) srtt_ns: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) delivery_rate: u64,
    pub(crate) total_bytes: u64,
    pub(crate) in_recovery: u32,
    pub(crate) marked: u32,
}

/// `struct windward_loss`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Loss {
    pub(crate) now_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) marked: u32,
    pub(crate) reserved: u32,
}

/// `struct windward_timeout`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Timeout {
    pub(crate) now_ns: u64,
    pub(crate) in_flight_bytes: u64,
    pub(crate) restart_window: u64,
    pub(crate) repeated: u32,
    pub(crate) reserved: u32,
}

type Create = unsafe extern "C" fn(*const Setup) -> *mut c_void;
type On<E> = unsafe extern "C" fn(*mut c_void, *const E);
type Read = unsafe extern "C" fn(*mut c_void) -> f64;
type Destroy = unsafe extern "C" fn(*mut c_void);

/// `struct windward_controller`. A function that may be missing is an option, whose `None` is NULL.
#[repr(C)]
struct Table {
    version: u32,
    size: u32,
    needs: u32,
    reserved: u32,
    name: *const c_char,
    description: *const c_char,
    create: Option<Create>,
    on_ack: Option<On<Ack>>,
    on_loss: Option<On<Loss>>,
    on_timeout: Option<On<Timeout>>,
    cwnd: Option<Read>,
    pacing_rate: Option<Read>,
    destroy: Option<Destroy>,
}

/// The functions of a library, which stays loaded as long as the program runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Functions {
    create: Create,
    on_ack: On<Ack>,
    on_loss: On<Loss>,
    on_timeout: On<Timeout>,
    cwnd: Read,
    pacing_rate: Option<Read>,
    destroy: Destroy,
}

/// A loaded library: its functions, and what it says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) functions: Functions,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) needs_rates: bool,
}

/// Loads a library, and keeps it loaded as long as the program runs.
///
/// # Errors
/// What is wrong with it, as a sentence without a capital or a full stop.
pub(crate) fn load(path: &Path) -> Result<Loaded, String> {
    // Without a separator the loader would search its own folders.
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let _call = watch::enter(Call::Load, 0);
    // SAFETY: the library's initialisers run. The user named it to have its code run.
    let library =
        unsafe { libloading::Library::new(&path) }.map_err(|error| loader_says(&error))?;
    // SAFETY: the header says that a symbol of this name is such a table; the first two words are
    // read alone, and the rest only if they fit.
    let table = unsafe {
        let table = library.get::<*const Table>("windward_controller").map_err(|_| {
            "it has no symbol `windward_controller`, the table of windward_controller.h".to_owned()
        })?;
        let table: *const Table = *table;
        let [version, size] = table.cast::<[u32; 2]>().read_unaligned();
        let needed = size_of::<Table>();
        if version != VERSION {
            return Err(format!(
                "it is made with version {version} of windward_controller.h, and this program has \
                 version {VERSION}: compile it with the header of this program"
            ));
        }
        if (size as usize) < needed {
            return Err(format!(
                "its table has {size} bytes and not {needed}: set `.size` to \
                 sizeof(struct windward_controller)"
            ));
        }
        table.read_unaligned()
    };
    std::mem::forget(library);
    let missing = |name: &str| format!("its table has no function `{name}`");
    let functions = Functions {
        create: table.create.ok_or_else(|| missing("create"))?,
        on_ack: table.on_ack.ok_or_else(|| missing("on_ack"))?,
        on_loss: table.on_loss.ok_or_else(|| missing("on_loss"))?,
        on_timeout: table.on_timeout.ok_or_else(|| missing("on_timeout"))?,
        cwnd: table.cwnd.ok_or_else(|| missing("cwnd"))?,
        pacing_rate: table.pacing_rate,
        destroy: table.destroy.ok_or_else(|| missing("destroy"))?,
    };
    let unknown = table.needs & !NEEDS_RATES;
    if unknown != 0 {
        return Err(format!(
            "its table has unknown bits {unknown:#x} in `needs`: use only WINDWARD_NEEDS_.. of \
             windward_controller.h"
        ));
    }
    let text = |pointer: *const c_char| {
        // SAFETY: the header says that it is NULL or a string of C.
        let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) });
        text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    };
    Ok(Loaded {
        functions,
        name: text(table.name),
        description: text(table.description),
        needs_rates: table.needs & NEEDS_RATES != 0,
    })
}

/// An error of the loader with its reason.
fn loader_says(error: &libloading::Error) -> String {
    let reason = std::error::Error::source(error).map(ToString::to_string);
    format!("it cannot be loaded: {}", reason.unwrap_or_else(|| error.to_string()))
}

impl Functions {
    pub(crate) fn paces(&self) -> bool {
        self.pacing_rate.is_some()
    }

    /// The state of a connection; `None` if the library gives none.
    pub(crate) fn create(&self, setup: &Setup) -> Option<State> {
        let _call = watch::enter(Call::Create, 0);
        // SAFETY: the pointer is to a setup as the header declares it.
        let state = NonNull::new(unsafe { (self.create)(setup) })?;
        Some(State { state, functions: *self })
    }
}

/// The state of a connection in a library.
pub(crate) struct State {
    state: NonNull<c_void>,
    functions: Functions,
}

// SAFETY: the header says that a state is used by one thread at a time, not always the same one.
unsafe impl Send for State {}
// SAFETY: every call needs `&mut State`.
unsafe impl Sync for State {}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}

impl State {
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        let _call = watch::enter(Call::OnAck, ack.now_ns);
        // SAFETY: `create` made the state, and the event is as the header declares it.
        unsafe { (self.functions.on_ack)(self.state.as_ptr(), ack) }
    }

    pub(crate) fn on_loss(&mut self, loss: &Loss) {
        let _call = watch::enter(Call::OnLoss, loss.now_ns);
        // SAFETY: as above.
        unsafe { (self.functions.on_loss)(self.state.as_ptr(), loss) }
    }

    pub(crate) fn on_timeout(&mut self, timeout: &Timeout) {
        let _call = watch::enter(Call::OnTimeout, timeout.now_ns);
        // SAFETY: as above.
        unsafe { (self.functions.on_timeout)(self.state.as_ptr(), timeout) }
    }

    pub(crate) fn cwnd(&mut self, now_ns: u64) -> f64 {
        let _call = watch::enter(Call::Cwnd, now_ns);
        // SAFETY: as above.
        unsafe { (self.functions.cwnd)(self.state.as_ptr()) }
    }

    pub(crate) fn pacing_rate(&mut self, now_ns: u64) -> Option<f64> {
        let _call = watch::enter(Call::PacingRate, now_ns);
        // SAFETY: as above.
        self.functions.pacing_rate.map(|rate| unsafe { rate(self.state.as_ptr()) })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _call = watch::enter(Call::Destroy, 0);
        // SAFETY: as above; nothing uses the state after it.
        unsafe { (self.functions.destroy)(self.state.as_ptr()) }
    }
}
