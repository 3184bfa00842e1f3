//! The examples of the rules: states of the corpus, by the file and the name of each. The tests check every file of the corpus.

macro_rules! corpus {
    ($($file:literal)*) => {
        [$(($file, include_str!(concat!("../../corpus/", $file)))),*]
    };
}

/// The files from which a rule shows states.
static FILES: [(&str, &str); 34] = corpus! {
    "faulty/01-catch-without-release.asl.json"
    "faulty/05-limit-over-ttl.asl.json"
    "faulty/09-no-time-limit.asl.json"
    "faulty/13-redriven-without-proof.asl.json"
    "faulty/14-work-after-lost.asl.json"
    "faulty/16-lost-retried.asl.json"
    "faulty/17-held-for-ever.asl.json"
    "faulty/18-items-share-a-request.asl.json"
    "faulty/20-request-changes.asl.json"
    "faulty/21-request-stays.asl.json"
    "faulty/22-result-over-handle.asl.json"
    "faulty/24-released-while-running.asl.json"
    "faulty/26-failure-aborts-others.asl.json"
    "faulty/27-loop-without-end.asl.json"
    "faulty/28-unknown-error.asl.json"
    "faulty/29-extend-left-out.asl.json"
    "faulty/30-dangling-next.asl.json"
    "faulty/31-work-after-release.asl.json"
    "faulty/34-express.template.yaml"
    "faulty/40-work-although-refused.asl.json"
    "faulty/45-earlier-step-again.asl.json"
    "faulty/46-ttl-in-the-queue.asl.json"
    "faulty/47-key-with-a-hole.asl.json"
    "faulty/48-limit-within-wait.asl.json"
    "sound/01-smallest.asl.json"
    "sound/02-fixed-limits.asl.json"
    "sound/03-in-the-queue.asl.json"
    "sound/04-counted-loop.asl.json"
    "sound/06-semaphore.asl.json"
    "sound/12-skip-if-held.asl.json"
    "sound/14-held-and-counted.asl.json"
    "sound/17-stack.template.yaml"
    "sound/23-lost-and-again.asl.json"
    "sound/30-three-steps.asl.json"
};

/// The states of these names in a file of the corpus, as they are written there.
pub(crate) fn excerpt(file: &str, states: &str) -> String {
    let known = FILES.iter().find(|(name, _)| *name == file);
    let text = known.map_or("", |(_, text)| *text);
    let shown = states.split(", ").map(|state| block(text, state));
    shown.collect()
}

/// The lines from the one that names the state to the one that ends it, without what they are indented by.
fn block(text: &str, state: &str) -> String {
    let starts = [format!("\"{state}\": {{"), format!("{state}:")];
    let is_start = |line: &&str| {
        starts
            .iter()
            .any(|start| line.trim_start().starts_with(start))
    };
    let mut lines = text.lines().skip_while(|line| !is_start(line));
    let first = lines.next().unwrap_or_default();
    let depth = depth(first);
    let mut shown = vec![first];
    let is_inside = |line: &&str| self::depth(line) > depth;
    for line in lines {
        if is_inside(&line) {
            shown.push(line);
            continue;
        }
        // A state on one line has ended already.
        if shown.len() > 1 && line.trim_start().starts_with('}') {
            shown.push(line);
        }
        break;
    }
    let shown = shown
        .iter()
        .map(|line| format!("{}\n", line.get(depth..).unwrap_or_default()));
    shown.collect()
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
