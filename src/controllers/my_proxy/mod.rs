//! The controller of MyProxy.
