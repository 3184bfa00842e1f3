//! Hands keys over that were freed while somebody was in line and by whom nobody was woken.
fn main() {}
