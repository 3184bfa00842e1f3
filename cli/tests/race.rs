//! Twenty programs race for one key, and every part of them is killed meanwhile. The evidence is the protected
//! resource: a record to which each command appends its token at every step.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(
    clippy::disallowed_methods,
    reason = "processes are waited for, which know no clock but the machine's"
)]

mod fixture;

use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fixture::{Fixture, guard, runs};
use rustix::process::{Pid, Signal, kill_process};

const RACERS: usize = 20;
/// So often wrappers are killed, and so often guards, and so often commands.
const KILLS: u32 = 2;
const AT_MOST: Duration = Duration::from_secs(60);

/// Appends to the record, in short steps, for a tenth of a second. Sometimes it tries to run for longer than it lives.
const WORK: &str = "trap '' TERM; n=0; end=5; [ $(( $$ % 7 )) = 0 ] && end=500; echo \"start $LEASEHOLD_FENCING_TOKEN $$ $PPID\" >>$0; \
    while [ $n -lt $end ]; do n=$((n + 1)); echo \"step $LEASEHOLD_FENCING_TOKEN\" >>$0; sleep 0.02; done; \
    echo \"end $LEASEHOLD_FENCING_TOKEN\" >>$0";

fn racer(fixture: &Fixture, record: &Path) -> Child {
    let arguments = [
        "acquire", "prize", "--ttl", "1500ms", "--quiet", "--", "sh", "-c", WORK,
    ];
    let mut command = fixture.command(&arguments);
    command
        .arg(record)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

/// The wrapper and the command that started last.
fn last(record: &Path) -> Option<(u32, u32)> {
    let text = std::fs::read_to_string(record).ok()?;
    let line = text.lines().rfind(|line| line.starts_with("start "))?;
    let words: Vec<_> = line.split(' ').collect();
    Some((words.get(3)?.parse().ok()?, words.get(2)?.parse().ok()?))
}

fn kill(pid: u32) -> bool {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_under_one_key_never_overlap() {
    let fixture = Fixture::start().await;
    let record = fixture.home().join("record");
    let mut racers: Vec<_> = (0..RACERS).map(|_| racer(&fixture, &record)).collect();
    let start = Instant::now();
    let mut kills = [0_u32; 3];
    for round in 0_u32.. {
        if kills.iter().all(|n| *n >= KILLS) {
            break;
        }
        assert!(start.elapsed() < AT_MOST, "a race there was: {kills:?}");
        tokio::time::sleep(Duration::from_millis(150)).await;
        // Each ended program is replaced by another.
        for one in &mut racers {
            if one.try_wait().unwrap().is_some() {
                *one = racer(&fixture, &record);
            }
        }
        let Some((wrapper, command)) = last(&record).filter(|(_, command)| runs(*command)) else {
            continue;
        };
        // It has not been waited for, so its process id is still its own. Every second command may end by itself.
        let ours = racers.iter().any(|one| one.id() == wrapper);
        let kind = usize::try_from(kills.iter().sum::<u32>() % 3).unwrap();
        let victim = match kind {
            _ if !ours || round % 2 == 0 => None,
            0 => Some((kind, wrapper)),
            1 => guard(wrapper).map(|guard| (kind, guard)),
            _ => Some((kind, command)),
        };
        if let Some((kind, victim)) = victim
            && kill(victim)
        {
            kills[kind] += 1;
        }
    }
    for mut one in racers {
        one.kill().unwrap();
        one.wait().unwrap();
    }

    let text = std::fs::read_to_string(&record).unwrap();
    let mut tokens: Vec<u64> = Vec::new();
    let mut ended = HashSet::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let what = words.next().unwrap();
        let token: u64 = words.next().unwrap().parse().unwrap();
        match what {
            "start" => {
                assert!(
                    tokens.last().is_none_or(|last| *last < token),
                    "{token} started after {:?}",
                    tokens.last()
                );
                tokens.push(token);
            }
            _ => assert_eq!(
                tokens.last(),
                Some(&token),
                "{line} after somebody else had started"
            ),
        }
        if what == "end" {
            ended.insert(token);
        }
    }
    let cut = tokens.len() - ended.len();
    println!(
        "race: {RACERS} programs, {} grants, {cut} cut short, killed {kills:?} (wrappers, guards, commands)",
        tokens.len()
    );
}
