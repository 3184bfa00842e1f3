//! The figures as they are told on the terminal.

use super::scenes::Scene;

/// The scenes with one execution each.
pub(super) fn scenes(scenes: &[Scene]) -> String {
    let mut lines = vec![
        "                              transitions               events  requests  write  read  invocations".to_owned(),
        "                              lease extend wait  work      all            units units  (work's left out)".to_owned(),
    ];
    for scene in scenes {
        let (by, spent) = (&scene.purposes, &scene.spent);
        lines.push(format!(
            "{:<29} {:>5} {:>6} {:>4} {:>5}  {:>7} {:>9} {:>6} {:>5} {:>9}",
            scene.name,
            by.lease.transitions,
            by.extend.transitions,
            by.waiting.transitions,
            by.work.transitions + by.frame.transitions,
            spent.history.events,
            spent.requests(),
            spent.write_units,
            spent.read_units,
            spent.invocations(),
        ));
    }
    lines.join("\n")
}
