//! nginx under supervision: check, drain, reload, graceful stop.
