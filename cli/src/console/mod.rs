//! `leasehold console`: the table as pages in a browser, and with `--allow-changes` what operators do to keys.
//!
//! A page is a function of what was read and of the time. Nobody but the person who started it gets one: it listens on loopback, the
//! address that it prints has a secret, which becomes a cookie for this console's path alone, and the guard refuses every request that
//! another page sends. What is changed is changed by the code of the commands.

mod changes;
mod key;
mod keys;
mod look;
mod page;
mod timeline;

use std::io::IsTerminal as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use clap::Args;
use leasehold::{Error, KeyDetails, RequestId};
use leasehold_net::{Guard, Listener, Place, Server, Site as Pages, quoted};
use maud::Markup;

use crate::connect::{TableArgs, TableClient};
use crate::doctor::account;
use crate::environment;
use crate::exit::{Code, Failure};
use crate::named::of_row;
use crate::operate;
use crate::output::{print, print_error};
use crate::signals;
use changes::{Asked, Fields};
use page::{Site, headers, respond};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold console --stack leasehold
  leasehold console --table leases --port 8080
  leasehold console --stack leasehold --allow-changes

It prints an address with a secret: open it in a browser on this machine. The pages show the keys that somebody has or waits for,
each key with its queue and its time, and the starts that have failed. With --allow-changes they also stop executions, force-release,
freeze and limit keys, and repeat and dismiss starts, each with a reason, as the commands of these names do. A page renews itself
while it is visible, and says how many requests an hour that takes. Everything is done with your credentials. Ctrl-C ends it.

Everybody who has the address can do what the pages do. The secret ends with the command.")]
pub(crate) struct ConsoleArgs {
    /// Name or ARN of the stack whose table to show
    #[arg(long, value_name = "NAME", conflicts_with = "table")]
    stack: Option<String>,
    /// Port on 127.0.0.1 [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// Let the pages change keys and starts
    #[arg(long)]
    allow_changes: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

/// The name of the cookie. Its path is that of one console, so several do not take it from each other.
const COOKIE: &str = "leasehold";

impl ConsoleArgs {
    pub(crate) async fn run(mut self) -> Result<Code, Failure> {
        if let Some(stack) = &self.stack {
            let (config, _) = self.table_args.sign_in().await?;
            self.table_args.table = Some(account::table_of(&config, stack).await?);
        }
        let mut signals = signals::listen()?;
        let (_server, address) = self.serve().await?;
        print(&address)?;
        if std::io::stdout().is_terminal() {
            print_error("open this address in a browser on this machine; Ctrl-C ends the console");
        }
        signals.next().await;
        Ok(Code::DONE)
    }

    /// Serves the pages. The address is the one to open.
    async fn serve(&self) -> Result<(Server, String), Failure> {
        let mut table_client = self.table_args.connect().await?;
        if self.allow_changes {
            let caller = operate::caller(&table_client).await;
            table_client.leases = table_client.leases.with_caller(caller);
        }
        let listener = Listener::bind(self.port).await.map_err(|error| {
            let what = format!("cannot listen at port {}: {error}", self.port);
            Failure::new(Code::UNREACHABLE, what)
                .advice("use another --port, or none for a free one")
        })?;
        // Cookies of 127.0.0.1 go to every port of it, but only to the path of which no other service knows.
        let (root, secret) = (path(), RequestId::random().as_str().to_owned());
        let address = format!("{}{root}open/{secret}/", listener.url());
        let guard = Guard {
            hosts: &["localhost"],
            site: Pages::SameOrigin,
            secret: secret.clone(),
            places: vec![
                Place::Cookie(COOKIE),
                Place::Path(format!("{root}open/").into()),
            ],
            advice: "the address that the console printed when it began: open that one in a new tab",
        };
        let console = Console {
            site: self.site(&table_client),
            restricted: look::Restricted::default(),
            root,
            secret,
            table_client,
        };
        Ok((listener.serve(routes(console), guard), address))
    }

    fn site(&self, table_client: &TableClient) -> Site {
        let words: Vec<_> = self.table_args.words().map(quoted).collect();
        let elsewhere = [
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_SFN",
            "AWS_ENDPOINT_URL_DYNAMODB",
        ];
        let elsewhere = elsewhere
            .iter()
            .any(|name| environment::text(name).is_some());
        let who = environment::text("USER").or_else(|| environment::text("LOGNAME"));
        Site {
            table: table_client.table.clone(),
            allow_changes: self.allow_changes,
            is_aws: !elsewhere && table_client.config.endpoint_url().is_none(),
            who: who.unwrap_or_default(),
            options: words.join(" "),
        }
    }
}

/// The path of everything that a console serves.
fn path() -> String {
    format!("/console-{}/", RequestId::random().as_str())
}

struct Console {
    site: Site,
    restricted: look::Restricted,
    root: String,
    secret: String,
    table_client: TableClient,
}

fn routes(console: Console) -> Router {
    let at = |page: &str| format!("{}{page}", console.root);
    let style = get(|| async { (headers("text/css"), include_str!("style.css")) });
    let script = get(|| async { (headers("text/javascript"), include_str!("renew.js")) });
    Router::new()
        .route(&at(&format!("open/{}/", console.secret)), get(open))
        .route(&at(""), get(keys))
        .route(&at("key"), get(key))
        .route(&at("starts"), get(starts))
        .route(&at("change"), get(before).post(after))
        .route(&at("style.css"), style)
        .route(&at("renew.js"), script)
        .with_state(Arc::new(console))
}

type Shared = State<Arc<Console>>;

/// Takes the secret out of the address.
async fn open(State(console): Shared) -> Response {
    let Console { root, secret, .. } = &*console;
    let cookie = format!("{COOKIE}={secret}; Path={root}; HttpOnly; SameSite=Strict");
    (
        StatusCode::SEE_OTHER,
        [(SET_COOKIE, cookie), (LOCATION, root.clone())],
    )
        .into_response()
}

async fn keys(State(console): Shared, RawQuery(query): RawQuery) -> Response {
    let sought = fields(query.as_deref()).remove("q").unwrap_or_default();
    let page = async {
        let listed = look::keys(&console.table_client, &console.restricted).await?;
        let now = console.table_client.leases.now();
        Ok(keys::keys(&console.site, &listed, &sought, now))
    };
    console.answer(Method::GET, page).await
}

async fn key(State(console): Shared, RawQuery(query): RawQuery) -> Response {
    let page = async {
        let name = fields(query.as_deref()).remove("name").unwrap_or_default();
        let key = of_row(&name).map_err(|error| Failure::usage(format!("the key: {error}")))?;
        let seen = look::key(&console.table_client, &key).await?;
        let now = console.table_client.leases.now();
        Ok(key::key(&console.site, &seen, now))
    };
    console.answer(Method::GET, page).await
}

async fn starts(State(console): Shared) -> Response {
    let page = async {
        let failed = look::failed_starts(&console.table_client).await?;
        let now = console.table_client.leases.now();
        Ok(key::failed(&console.site, &failed, now))
    };
    console.answer(Method::GET, page).await
}

async fn before(State(console): Shared, RawQuery(query): RawQuery) -> Response {
    let page = async {
        let (asked, view) = console.asked(fields(query.as_deref())).await?;
        changes::before(&console.site, &asked, &view, None)
    };
    console.answer(Method::GET, page).await
}

async fn after(State(console): Shared, sent: HeaderMap, form: String) -> Response {
    let page = Box::pin(async {
        // Every browser names the origin of a form, and the guard has compared it.
        if !sent.contains_key(ORIGIN) {
            return Err(Failure::usage(
                "only a page of this console changes anything",
            ));
        }
        let (asked, view) = console.asked(fields(Some(&form))).await?;
        let done = changes::carry_out(&console.site, &console.table_client, &asked, &view).await;
        console.restricted.forget();
        done
    });
    console.answer(Method::POST, page).await
}

fn fields(encoded: Option<&str>) -> Fields {
    let fields = form_urlencoded::parse(encoded.unwrap_or_default().as_bytes());
    fields.into_owned().collect()
}

impl Console {
    /// What is asked for, and the key as it is now.
    async fn asked(&self, fields: Fields) -> Result<(Asked, leasehold::KeyView), Failure> {
        if !self.site.allow_changes {
            let failure = Failure::usage("this console is read-only");
            return Err(failure.advice("start it with --allow-changes"));
        }
        let asked = Asked::read(fields)?;
        let leases = &self.table_client.leases;
        let view = leases.key_view(&asked.key, KeyDetails::default()).await;
        Ok((asked, view.map_err(Error::of_a_read)?))
    }

    /// The page, or that of its failure.
    async fn answer(
        &self,
        method: Method,
        page: impl Future<Output = Result<Markup, Failure>>,
    ) -> Response {
        self.table_client.credentials.refresh_if_expiring().await;
        match page.await {
            Ok(page) => respond(StatusCode::OK, page),
            Err(failure) => {
                let status = match failure.code {
                    Code::USAGE => StatusCode::BAD_REQUEST,
                    Code::UNREACHABLE => StatusCode::BAD_GATEWAY,
                    _ => StatusCode::CONFLICT,
                };
                let page = page::failed(&self.site, &failure, method == Method::GET);
                respond(status, page)
            }
        }
    }
}
