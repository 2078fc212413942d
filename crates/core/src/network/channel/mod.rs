//! Channels: which packets a wire destroys.
