//! What any operator needs. Nothing here knows a kind.
