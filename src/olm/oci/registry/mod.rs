//! A client of registries (the OCI distribution specification), with everything bounded that somebody else decides: time, sizes, redirects and attempts.
//!
//! Credentials go to the registry's own host and to the token service that it names, by TLS or on this machine; to nobody to whom a redirect leads.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use hyper::body::Incoming;

use super::credentials::Credentials;
use super::name::is_loopback;
use super::{Error, Name, Watch};

mod address;
mod answer;
mod challenge;
mod failure;
mod payload;
mod platforms;
mod proxy;
mod pull;
mod push;
mod retry;
mod token;
mod transport;

pub use failure::Failure;
pub use proxy::Proxies;

use self::address::{Origin, resolve};
use self::challenge::Challenge;
use self::payload::Payload;
use self::transport::Transport;

/// How long things may take, and how often they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Until there is a connection.
    pub connect: Duration,
    /// Until there is an answer, and between two pieces of one.
    pub answer: Duration,
    /// The slowest transfer that is waited for, in bytes each second.
    pub slowest: u64,
    /// How often something is tried that may go well the next time.
    pub attempts: u32,
    /// The first pause between two attempts. Each further one is twice as long.
    pub pause: Duration,
    /// The longest pause, whatever the registry asks for.
    pub longest_pause: Duration,
    /// How many redirects are followed in a row.
    pub redirects: usize,
    /// All parts of an image that is pulled together, in bytes.
    pub largest: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            slowest: 32 << 10,
            attempts: 5,
            pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(60),
            redirects: 5,
            largest: 8 << 30,
        }
    }
}

impl Limits {
    /// How long a transfer of so many bytes may take as a whole.
    fn transfer(&self, bytes: u64) -> Duration {
        self.answer + Duration::from_secs(bytes / self.slowest.max(1))
    }
}

/// How a registry is reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// By plain HTTP, whatever the host. A host on this machine is asked so unless there is an authority for it.
    pub is_plain: bool,
    /// Authorities to trust besides those of the system, in PEM.
    pub authorities: Option<Vec<u8>>,
    /// Through which proxies.
    pub proxies: Proxies,
    /// Its limits.
    pub limits: Limits,
}

/// One repository of a registry.
pub struct Registry {
    name: Name,
    origin: Origin,
    transport: Transport,
    credentials: Option<Credentials>,
    /// What the registry was last content with.
    authorization: Option<HeaderValue>,
    /// `pull`, or `pull,push`.
    actions: &'static str,
    watch: Arc<dyn Watch>,
}

/// A request: it may have to be made several times.
struct Ask<'a> {
    method: Method,
    uri: Uri,
    accept: &'a str,
    payload: Payload<'a>,
    /// How long until the head of the answer.
    time: Duration,
}

impl Ask<'_> {
    /// As messages tell it: without the query, in which some registries sign what they hand out.
    fn told(&self) -> String {
        told(&self.method, &self.uri)
    }
}

fn told(method: &Method, uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!(
        "{method} {}://{authority}{}",
        uri.scheme_str().unwrap_or_default(),
        uri.path()
    )
}

impl Registry {
    /// Prepares to ask for the image of a name. Nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Content`] of authorities that are none.
    pub fn new(
        name: &Name,
        credentials: Option<Credentials>,
        options: &Options,
        watch: Arc<dyn Watch>,
    ) -> Result<Self, Error> {
        let host = name.endpoint();
        let is_plain = options.is_plain || is_loopback(host) && options.authorities.is_none();
        Ok(Self {
            origin: Origin::new(is_plain, host),
            name: name.clone(),
            transport: Transport::new(options)?,
            credentials,
            authorization: None,
            actions: "pull",
            watch,
        })
    }

    fn limits(&self) -> Limits {
        self.transport.limits
    }

    /// The address of something in the repository.
    fn uri(&self, what: &str) -> Result<Uri, Failure> {
        let text = format!("{}/v2/{}/{what}", self.origin, self.name.path);
        text.parse()
            .map_err(|_| Failure::never(&text, "it is no address that can be asked"))
    }

    /// Asks, and once more with what the registry wants to be shown if it says so.
    async fn exchange(&mut self, ask: &Ask<'_>) -> Result<Response<Incoming>, Failure> {
        let (response, is_own) = self.follow(ask).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !is_own {
            return Ok(response);
        }
        let challenges = challenge::all(response.headers());
        drop(response);
        self.authorization = Some(self.authorize(&challenges, &ask.told()).await?);
        Ok(self.follow(ask).await?.0)
    }

    /// What to show a registry that wants to see something.
    async fn authorize(&self, challenges: &[Challenge], asked: &str) -> Result<HeaderValue, Failure> {
        let of = |scheme: &str| challenges.iter().find(|challenge| challenge.is(scheme));
        let is_secret = self.origin.is_secret();
        if self.credentials.is_some() && !is_secret {
            let why = format!(
                "{} is asked by plain HTTP and wants credentials, which are sent by TLS alone; leave --plain-http out",
                self.origin.host()
            );
            return Err(Failure::never(asked, why));
        }
        if let Some(bearer) = of("bearer") {
            let token = match &self.credentials {
                Some(Credentials::Token(token)) => token.clone(),
                credentials => {
                    let credentials = credentials.as_ref();
                    let scopes = bearer.scopes(&self.name.path, self.actions);
                    let wanted = token::Wanted {
                        bearer,
                        scopes,
                        registry: &self.origin,
                    };
                    token::fetch(&self.transport, &wanted, credentials).await?
                }
            };
            return answer::sensitive(asked, &format!("Bearer {}", token.shown()));
        }
        match (of("basic"), &self.credentials) {
            (Some(_), Some(Credentials::Password { user, password })) => {
                answer::sensitive(asked, &answer::basic(user, password))
            }
            (Some(_), _) => Err(Failure::never(
                asked,
                format!("it wants a user and a password; {}", self.log_in()),
            )),
            (None, _) => {
                let schemes: Vec<&str> = challenges.iter().map(Challenge::scheme).collect();
                let why = format!("401, and it wants {schemes:?}; known are Bearer and Basic");
                Err(Failure::never(asked, why))
            }
        }
    }

    fn log_in(&self) -> String {
        let host = &self.name.host;
        match self.credentials {
            None => format!(
                "there are no credentials for {host}: log in with `podman login {host}` or `docker login {host}`"
            ),
            Some(_) => format!("the credentials for {host} are too old, or not allowed to do this"),
        }
    }

    /// Asks, and follows redirects of what only reads. The second is whether the registry itself has answered.
    async fn follow(&self, ask: &Ask<'_>) -> Result<(Response<Incoming>, bool), Failure> {
        let mut uri = ask.uri.clone();
        let is_read = matches!(ask.method, Method::GET | Method::HEAD);
        let mut is_own = self.origin.is_of(&uri);
        for _ in 0..=self.limits().redirects {
            let mut headers = HeaderMap::new();
            if let Ok(accept) = HeaderValue::from_str(ask.accept) {
                headers.insert(header::ACCEPT, accept);
            }
            if let (Some(authorization), true) = (&self.authorization, is_own) {
                headers.insert(header::AUTHORIZATION, authorization.clone());
            }
            let request = ask.payload.request(&ask.method, &uri, headers, &self.watch)?;
            let response = self.transport.send(request, ask.time).await?;
            if !response.status().is_redirection() || !is_read {
                return Ok((response, is_own));
            }
            let asked = told(&ask.method, &uri);
            let location = answer::text_header(&response, &header::LOCATION);
            let location = location.ok_or_else(|| Failure::never(&asked, "it redirects to nowhere"))?;
            uri = resolve(&uri, location).map_err(|why| Failure::never(&asked, why))?;
            // Once away, always away: whoever redirects here from there knows more than it should
            is_own = is_own && self.origin.is_of(&uri);
        }
        let why = format!("it redirects more than {} times", self.limits().redirects);
        Err(Failure::never(&ask.told(), why))
    }

    /// What a registry says that has not done what it was asked.
    async fn refused(&self, ask: &Ask<'_>, response: Response<Incoming>) -> Failure {
        let status = response.status();
        let remedy = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some(self.log_in()),
            StatusCode::NOT_FOUND => Some(format!("look whether {} is its name", self.name)),
            _ => None,
        };
        let failure = answer::refused(&ask.told(), response, self.limits()).await;
        match remedy {
            Some(remedy) => failure.with_remedy(&remedy),
            None => failure,
        }
    }
}
