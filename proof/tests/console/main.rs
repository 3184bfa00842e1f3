//! `leasehold console` as a person sees it: in Chromium, from finding a stuck key to having freed it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

mod browser;
mod console;

use std::path::Path;
use std::time::Duration;

use browser::Browser;
use console::{Console, EXECUTION, MACHINE, PAGES};
use leasehold::Act;
use leasehold_net::Listener;
use leasehold_proof::fixture::eventually;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test(flavor = "multi_thread")]
async fn stuck_key_is_freed_with_a_reason() {
    let console = Console::start(&["--allow-changes"]).await;
    console.queue("orders/42", 2).await;
    console.hold("reports/daily", "worker 7").await;
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    // The address that remains has no secret.
    assert_eq!(browser.url().await, console.page(""));
    let list = browser.says("2 held, 1 waiting, 0 frozen.").await;
    let order = ["orders/42", "reports/daily"].map(|key| list.find(key).unwrap());
    assert!(order.is_sorted(), "who waits comes first: {list}");

    browser.click("orders/42").await;
    browser.says("holder\norders:0").await;
    browser.says("held while its execution runs").await;
    browser.says("1 in the queue, the first for").await;
    browser.click("Force-release…").await;
    let before = browser
        .says(&format!("{EXECUTION}0 loses orders/42 at once."))
        .await;
    assert!(
        before.contains("it works on beside the next holder"),
        "{before}"
    );
    assert!(
        before.contains("the next sweep of the stack, within a minute, grants it to that one"),
        "{before}"
    );
    // Without a reason the browser does not send it.
    browser.click("Force-release").await;
    assert_eq!(
        browser
            .run("return document.querySelector('#why').validity.valueMissing")
            .await,
        true
    );
    browser
        .fill("why", "hangs since noon, ticket 7\u{e007}")
        .await;
    let after = browser.says("orders/42 is released; ").await;
    assert!(
        after.contains("By alice: hangs since noon, ticket 7"),
        "{after}"
    );
    let record = console.last_act("orders/42").await;
    let told = (record.act, record.who.as_str(), record.why.as_str());
    assert_eq!(
        told,
        (Act::ForceRelease, "alice", "hangs since noon, ticket 7")
    );
    browser.click("orders/42").await;
    browser.says("force-release by alice").await;
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_are_searched_and_shown() {
    let console = Console::start(&[]).await;
    console.queue("partner", 129).await;
    console.hold_many(1000).await;
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    let list = browser.says("1001 held, 128 waiting, 0 frozen.").await;
    assert!(list.contains("These are the first 1000: search for others."));
    browser.fill("q", "tenant/777\u{e007}").await;
    browser.says("1 matches.").await;
    browser.click("tenant/777").await;
    browser.says("holder\nworker 7").await;

    browser.open(&console.page("key?name=partner")).await;
    let page = browser.says("128 in the queue").await;
    assert!(page.contains("and 118 more who wait"), "{page}");
    let places = "return [...document.querySelectorAll('h2 + .cards tbody tr')].map(row => \
                  row.cells[0].textContent + ' ' + row.cells[4].textContent)";
    let places = browser.run(places).await;
    let expected: Vec<_> = (1..129)
        .map(|place| format!("{place} orders:{place}"))
        .collect();
    assert_eq!(places, json!(expected));
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// Nothing scrolls sideways on the screen of a phone, and words can be read in the light and in the dark.
#[tokio::test(flavor = "multi_thread")]
async fn pages_fit_and_can_be_read() {
    let console = Console::start(&["--allow-changes"]).await;
    console.play().await;
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    browser.says("expired").await;
    for (name, page) in PAGES {
        browser.screen(360, 740).await;
        browser.open(&console.page(page)).await;
        let width = "return document.documentElement.scrollWidth";
        assert_eq!(browser.run(width).await, 360, "{name}");
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).await;
            assert_eq!(browser.run(CONTRAST).await, json!([]), "{name} {scheme}");
        }
    }
    assert_eq!(browser.complaints().await, [""; 0]);
}

/// The words whose contrast with what is behind them is below that of the guidelines for text (WCAG 2, level AA).
const CONTRAST: &str = "
    const parts = (color) => color.match(/[\\d.]+/g).map(Number);
    const light = (color) => {
        const [r, g, b] = parts(color).map((part) => part / 255).map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const behind = (element) => {
        const { backgroundColor } = getComputedStyle(element);
        return parts(backgroundColor)[3] === 0 ? behind(element.parentElement) : backgroundColor;
    };
    const has = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const low = [...document.querySelectorAll('body *')].filter(has).filter((element) => {
        const [a, b] = [light(getComputedStyle(element).color), light(behind(element))].sort((x, y) => y - x);
        return (a + .05) / (b + .05) < 4.5;
    });
    return [...new Set(low.map((element) => element.outerHTML))];";

#[tokio::test(flavor = "multi_thread")]
async fn two_windows_see_each_change() {
    let console = Console::start(&["--allow-changes"]).await;
    console.queue("orders/42", 2).await;
    let browser = Browser::start().await;
    let (one, other) = (browser.window().await, browser.new_window().await);
    browser.open(&console.address).await;
    browser.click("orders/42").await;
    browser.click("Force-release…").await;
    browser.fill("why", "too late").await;
    browser.look_at(&other).await;
    browser.open(&console.page("key?name=orders%2F42")).await;
    browser.click("Freeze…").await;
    browser.fill("why", "incident 77\u{e007}").await;
    browser.says("orders/42 is frozen").await;
    browser.click("orders/42").await;
    // The other window renews itself.
    let third = browser.new_window().await;
    browser.look_at(&third).await;
    browser
        .open(&console.page("change?act=unfreeze&key=orders%2F42"))
        .await;
    browser.fill("why", "incident 77 is over\u{e007}").await;
    browser.says("orders/42 can be granted again").await;
    browser.look_at(&other).await;
    browser.says("unfreeze by alice").await;
    browser.click("Stop and release…").await;
    browser.says("Step Functions is asked to stop").await;
    browser.fill("why", "hangs\u{e007}").await;
    browser.says("Step Functions was asked to stop").await;
    assert!(!console.is_running(0));
    console.free("orders/42").await;
    // What was seen in the first window is no more.
    browser.look_at(&one).await;
    browser.click("Force-release").await;
    browser.says("the grant that you saw has ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_failed_starts_are_changed() {
    let console = Console::start(&["--allow-changes"]).await;
    for name in ["again", "never"] {
        console.fail_start("orders/42", name).await;
    }
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    browser.says("No key is held").await;
    browser.click("Failed starts").await;
    let failed = browser.says("2 could not begin.").await;
    assert!(failed.contains("StateMachineDoesNotExist"), "{failed}");
    browser.click("Repeat…").await;
    browser
        .fill("why", "the machine is there again\u{e007}")
        .await;
    browser
        .says(&format!("started: {MACHINE}").replace("stateMachine", "execution"))
        .await;
    browser.click("Failed starts").await;
    browser.says("1 could not begin.").await;
    browser.click("Dismiss…").await;
    browser.says("is not listed any more").await;
    browser.fill("why", "asked for by mistake\u{e007}").await;
    browser.says("dismissed: ").await;
    browser.open(&console.page("key?name=orders%2F42")).await;
    browser.click("Limit…").await;
    browser.fill("limit", "many").await;
    browser.fill("why", "maintenance\u{e007}").await;
    browser.says("expected a whole number, or none").await;
    browser
        .open(&console.page("change?act=limit&key=orders%2F42"))
        .await;
    browser.fill("limit", "0").await;
    browser.fill("why", "maintenance\u{e007}").await;
    browser
        .says("orders/42 is limited to 0: nobody is granted it")
        .await;
    browser.click("orders/42").await;
    browser.says("0, by alice").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_shows_who_waits_and_is_limited() {
    let console = Console::start(&["--allow-changes"]).await;
    console.pool("imports", &["tenants/a", "tenants/b"]).await;
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    browser.says("3 held, 1 waiting, 0 frozen.").await;
    browser.click("tenants/b").await;
    browser.says("held while it waits in pool imports").await;
    browser.click("pool imports").await;
    browser.says("holder\norders:tenants-a").await;
    let page = browser.says("1 in the queue, the first for").await;
    assert!(page.contains("orders:tenants-b"), "{page}");
    browser.click("Limit…").await;
    browser.says("Limit pool imports").await;
    browser.fill("limit", "2").await;
    browser
        .fill("why", "the partner is well again\u{e007}")
        .await;
    let done = browser.says("pool imports is limited to 2").await;
    assert!(done.contains("the first waiter has it now"), "{done}");
    assert_eq!(browser.complaints().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_page_recovers() {
    let console = Console::start(&[]).await;
    console.hold("orders/42", "worker 7").await;
    let browser = Browser::start().await;
    console.refuse("Scan");
    browser.open(&console.address).await;
    let failed = browser.says("That did not work").await;
    assert!(
        failed.contains("this command needs dynamodb:Scan on "),
        "{failed}"
    );
    // By itself, and whole.
    browser.says("1 held, 0 waiting, 0 frozen.").await;
    browser.fill("q", "orders\u{e007}").await;
    browser.says("1 matches.").await;
    // A renewal that fails says so, and the page goes on.
    console.refuse("Scan");
    browser.says("That did not work").await;
    browser.says("1 matches.").await;
}

/// A page of somebody else, which knows the address of a form: it sends the form, and asks in a script.
fn foreign_page(console: &Console) -> String {
    let change = console.page("change");
    format!(
        "<!DOCTYPE html><title>waiting</title><form method=post target=sent action='{change}'>\
         <input name=act value=freeze><input name=key value=orders/42><input name=who value=mallory><input name=why value=fun></form>\
         <iframe name=sent id=sent></iframe><script>\
         document.querySelector('form').submit();\
         const body = new URLSearchParams({{act: 'freeze', key: 'orders/42', who: 'mallory', why: 'fun'}});\
         const asked = [fetch('{change}', {{method: 'POST', mode: 'no-cors', credentials: 'include', body}}),\
           fetch('{list}', {{credentials: 'include'}}).then((answer) => answer.text())];\
         Promise.allSettled(asked).then(([, read]) => sent.onload = document.title = read.status);</script>",
        list = console.page(""),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_page_changes_nothing() {
    let console = Console::start(&["--allow-changes"]).await;
    console.hold("orders/42", "worker 7").await;
    let page = axum::response::Html(foreign_page(&console));
    let listener = Listener::bind(0).await.unwrap();
    let address = listener.address();
    let routes = axum::Router::new().route("/", axum::routing::get(async move || page.clone()));
    let serving = tokio::spawn(axum::serve(listener.into_socket(), routes).into_future());
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    browser.says("1 held").await;
    // Of another site, and of this one at another port, which gets the cookies of this host.
    for host in ["localhost", "127.0.0.1"] {
        browser
            .open(&format!("http://{host}:{}/", address.port()))
            .await;
        eventually("an answer", async || {
            (browser.run("return document.title").await == "rejected").then_some(())
        })
        .await;
        let view = console.view("orders/42").await;
        assert!(
            !view.is_frozen() && view.last_act().is_none(),
            "{host}: {view:?}"
        );
    }
    // The person's own page still answers.
    browser.open(&console.page("")).await;
    browser.says("1 held").await;
    serving.abort();
}

/// Every browser names the origin of a form: of a page without one nobody knows whose it is, also if it shows the secret.
#[tokio::test(flavor = "multi_thread")]
async fn change_without_origin_is_refused() {
    let console = Console::start(&["--allow-changes"]).await;
    console.hold("orders/42", "worker 7").await;
    let (page, opened) = console.address.split_once("/console-").unwrap();
    let (root, secret) = opened.split_once("/open/").unwrap();
    let (host, secret) = (page.replace("http://", ""), secret.trim_end_matches('/'));
    let form = "act=freeze&key=orders/42&who=mallory&why=fun";
    let mut stream = tokio::net::TcpStream::connect(&host).await.unwrap();
    let request = format!(
        "POST /console-{root}/change HTTP/1.1\r\nHost: {host}\r\nCookie: leasehold={secret}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("only a page of this console"), "{answer}");
    let view = console.view("orders/42").await;
    assert!(!view.is_frozen() && view.last_act().is_none(), "{view:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_needs_no_script_and_rests_when_hidden() {
    let console = Console::start(&[]).await;
    console.queue("orders/42", 2).await;
    let browser = Browser::start().await;
    browser.open(&console.address).await;
    let page = browser.says("about 4,320 requests to AWS an hour.").await;
    assert!(page.contains("read-only"), "{page}");
    // It is renewed often now, and not while it is hidden.
    let often = "document.getElementById('live').dataset.every = 50;\
                 Object.defineProperty(document, 'hidden', {configurable: true, value: HIDDEN});\
                 document.dispatchEvent(new Event('visibilitychange'))";
    console.requests();
    browser.run(&often.replace("HIDDEN", "false")).await;
    eventually("renewed", async || (console.requests() > 0).then_some(())).await;
    browser.run(&often.replace("HIDDEN", "true")).await;
    // What was under way comes to its end.
    eventually("at rest", async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        (console.requests() == 0).then_some(())
    })
    .await;
    browser
        .run("document.getElementById('live').dataset.every = 50")
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(console.requests(), 0);
    browser.run(&often.replace("HIDDEN", "false")).await;
    eventually("renewed", async || (console.requests() > 0).then_some(())).await;

    browser
        .tell(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": true}),
        )
        .await;
    browser.open(&console.page("key?name=orders%2F42")).await;
    let page = browser.says("Scripts are off").await;
    for words in [
        "1 in the queue",
        "holder\norders:0",
        "leasehold force-release orders/42 --stop",
    ] {
        assert!(page.contains(words), "{page}");
    }
    assert!(
        !page.contains("Freeze…") && !page.contains("requests to AWS"),
        "{page}"
    );
    browser.open(&console.page("starts")).await;
    browser.says("No start has failed.").await;
    // As docs/reference/permissions.md has them.
    let operations = console.operations();
    let may = |one: &String| ["GetItem", "Query", "Scan"].contains(&one.as_str());
    assert!(operations.iter().all(may), "{operations:?}");
    // Nothing is changed by whoever guesses the address of a form.
    browser
        .open(&console.page("change?act=freeze&key=orders%2F42"))
        .await;
    browser.says("this console is read-only").await;
}

/// Draws the picture of the documents: `make -C proof screenshot`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the picture of the documents"]
async fn screenshot() {
    let console = Console::start(&["--allow-changes"]).await;
    console.play().await;
    let browser = Browser::start().await;
    browser.screen(860, 720).await;
    browser.open(&console.address).await;
    browser.says("expired").await;
    // All pages, for whoever changes them.
    if let Some(directory) = std::env::var_os("SCREENSHOTS") {
        for (name, page) in PAGES {
            for (scheme, width) in [("light", 860), ("dark", 860), ("light", 360)] {
                browser.prefer(scheme).await;
                browser.screen(width, 900).await;
                browser.open(&console.page(page)).await;
                let file = Path::new(&directory).join(format!("{name}-{scheme}-{width}.png"));
                std::fs::write(file, browser.picture().await).unwrap();
            }
        }
        return;
    }
    browser.click("orders/42").await;
    browser.says("Queue").await;
    let file = leasehold_proof::root().join("docs/pictures/console.png");
    std::fs::write(file, browser.picture().await).unwrap();
}
