//! MyProxy: an nginx that proxies.
