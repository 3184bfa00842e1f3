//! Chromium, by its driver, which speaks W3C's `WebDriver`: each command is one request with JSON. The maintained clients for Rust
//! bring a licence that is not on the list of `tools/deny.toml`, or thirty crates for what stands here.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use leasehold_proof::fixture::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser without a window on the screen. It ends when it is dropped.
pub struct Browser {
    driver: Child,
    client: Client<HttpConnector, Full<Bytes>>,
    session: String,
    /// What it writes.
    _directory: TempDir,
}

impl Browser {
    pub async fn start() -> Self {
        // The driver takes a free port of one kind of address and then wants the same of another, which may be taken.
        eventually("a browser", async || {
            let directory = tempfile::tempdir().unwrap();
            let own = directory.path().to_owned();
            let (driver, port) = tokio::task::spawn_blocking(move || driver(&own))
                .await
                .unwrap()?;
            let mut browser = Self {
                driver,
                client: Client::builder(TokioExecutor::new()).build_http(),
                session: format!("http://127.0.0.1:{port}/session"),
                _directory: directory,
            };
            // Tests may run as root, and containers have little shared memory.
            let arguments = [
                "--headless=new",
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
            ];
            let asked = json!({"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": arguments},
                "goog:loggingPrefs": {"browser": "ALL"},
            }}});
            let session = browser.send("POST", "", asked).await.ok()?;
            browser.session = format!("{}/{}", browser.session, session["sessionId"].as_str()?);
            Some(browser)
        })
        .await
    }

    async fn send(
        &self,
        method: &str,
        path: impl Into<String>,
        body: Value,
    ) -> Result<Value, Value> {
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(self.session.clone() + &path.into())
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        let is_done = response.status().is_success();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut answer: Value = serde_json::from_slice(&body).unwrap();
        let value = answer["value"].take();
        if is_done { Ok(value) } else { Err(value) }
    }

    pub async fn open(&self, url: &str) {
        self.send("POST", "/url", json!({ "url": url }))
            .await
            .unwrap();
    }

    pub async fn url(&self) -> String {
        let url = self.send("GET", "/url", Value::Null).await.unwrap();
        url.as_str().unwrap().to_owned()
    }

    /// The words of the page, as they are rendered.
    pub async fn words(&self) -> String {
        let words = self.run("return document.body.innerText").await;
        words.as_str().unwrap().to_owned()
    }

    /// Waits until the page has these words, and returns all of them.
    pub async fn says(&self, words: &str) -> String {
        eventually(words, async || {
            let seen = self.words().await;
            seen.contains(words).then_some(seen)
        })
        .await
    }

    async fn find(&self, by: &str, what: &str) -> Result<String, Value> {
        let asked = json!({"using": by, "value": what});
        let found = self.send("POST", "/element", asked).await?;
        let id = found.as_object().unwrap().values().next().unwrap();
        Ok(id.as_str().unwrap().to_owned())
    }

    /// Clicks a link or a button by its words. A page that renews itself may replace a link that was just found.
    pub async fn click(&self, words: &str) {
        let named = format!("//*[self::a or self::button][normalize-space()='{words}']");
        eventually(words, async || {
            let found = self.find("xpath", &named).await.ok()?;
            let clicked = self.send("POST", format!("/element/{found}/click"), json!({}));
            clicked.await.ok()
        })
        .await;
    }

    /// Types into the field of this id; `\u{e007}` is the Enter key.
    pub async fn fill(&self, id: &str, text: &str) {
        let field = format!("#{id}");
        let found = eventually(id, async || self.find("css selector", &field).await.ok()).await;
        let typed = self.send(
            "POST",
            format!("/element/{found}/value"),
            json!({ "text": text }),
        );
        typed.await.unwrap();
    }

    /// What a script of ours returns.
    pub async fn run(&self, script: &str) -> Value {
        let asked = json!({"script": script, "args": []});
        self.send("POST", "/execute/sync", asked).await.unwrap()
    }

    /// A command of Chromium's own protocol.
    pub async fn tell(&self, command: &str, parameters: Value) -> Value {
        let asked = json!({"cmd": command, "params": parameters});
        self.send("POST", "/goog/cdp/execute", asked).await.unwrap()
    }

    /// Makes the screen this large.
    pub async fn screen(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 400});
        self.tell("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Prefers `light` or `dark` from here on.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tell("Emulation.setEmulatedMedia", features).await;
    }

    /// Opens another window, without looking at it yet.
    pub async fn new_window(&self) -> String {
        let window = self
            .send("POST", "/window/new", json!({"type": "window"}))
            .await
            .unwrap();
        window["handle"].as_str().unwrap().to_owned()
    }

    pub async fn window(&self) -> String {
        let window = self.send("GET", "/window", Value::Null).await.unwrap();
        window.as_str().unwrap().to_owned()
    }

    pub async fn look_at(&self, window: &str) {
        self.send("POST", "/window", json!({ "handle": window }))
            .await
            .unwrap();
    }

    /// The page as a picture, a PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let picture = self.send("GET", "/screenshot", Value::Null).await.unwrap();
        aws_smithy_types::base64::decode(picture.as_str().unwrap()).unwrap()
    }

    /// What the browser complains of: a script that fails, or what the content security policy keeps out.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self
            .send("POST", "/se/log", json!({"type": "browser"}))
            .await
            .unwrap();
        let lines = log.as_array().unwrap().iter();
        lines
            .map(|line| line["message"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The driver, and where it listens; none if it has ended instead.
fn driver(directory: &Path) -> Option<(Child, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .env("TMPDIR", directory)
        .env("HOME", directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver is missing: `make browser` installs it, with Chromium");
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let port = lines.find_map(|line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    });
    // It ends when nobody reads what it prints.
    std::thread::spawn(move || lines.for_each(drop));
    let Some(port) = port else {
        let _ = driver.wait();
        return None;
    };
    Some((driver, port))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The end of its session ends the browser, which outlives a driver that is killed.
        if let Some((address, path)) = self.session.trim_start_matches("http://").split_once('/')
            && let Ok(mut driver) = TcpStream::connect(address)
        {
            let _ = driver.set_read_timeout(Some(Duration::from_secs(20)));
            let _ = write!(
                driver,
                "DELETE /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            );
            let _ = driver.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
