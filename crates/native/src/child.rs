//! The end of a child whose parent is gone.

/// Ends this process when its parent does, on Linux: a loop in a library would run for ever.
/// Elsewhere it has no effect.
pub fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // Without it the child ends when its work does.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}
