//! Asking for confirmation.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use leasehold_asl::plain;

use crate::exit::{Code, Failure};

/// Asks for confirmation on the terminal. Without a terminal only `--yes` confirms.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        let failure = Failure::usage("cannot ask for confirmation: this is not a terminal");
        return Err(failure.advice("use --yes to confirm"));
    }
    let mut answer = String::new();
    let mut asked = std::io::stderr();
    let heard = write!(asked, "{} [y/N] ", plain(question))
        .and_then(|()| asked.flush())
        .and_then(|()| input.lock().read_line(&mut answer));
    match (heard, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::new(Code::FAILURE, "nothing was done")),
    }
}
