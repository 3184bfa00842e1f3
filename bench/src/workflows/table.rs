//! The figures as they are told on the terminal.

use super::scenes::Scene;

/// The scenes with one execution each.
pub(super) fn scenes(scenes: &[Scene]) -> String {
    let mut lines = vec![
        "                              transitions               events  requests  write  read  requests  invocations".to_owned(),
        "                              lease extend wait  work      all            units units  to tidy  (work's left out)".to_owned(),
    ];
    for scene in scenes {
        let (by, spent) = (&scene.purposes, &scene.spent);
        lines.push(format!(
            "{:<29} {:>5} {:>6} {:>4} {:>5}  {:>7} {:>9} {:>6} {:>5} {:>8} {:>8}",
            scene.name,
            by.lease.transitions,
            by.extend.transitions,
            by.waiting.transitions,
            by.work.transitions + by.frame.transitions,
            spent.history.events,
            spent.sections_asked.requests(),
            spent.sections_asked.write_units,
            spent.sections_asked.read_units,
            spent.tidying_asked.requests(),
            spent.invocations(),
        ));
    }
    lines.join("\n")
}
