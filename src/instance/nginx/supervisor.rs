//! The life of the container: start, reload, stop.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::check::{CheckError, check, machine};
use super::generation::{self, Unwritable};
use super::inputs::{Inputs, mounted_config};
use super::machine::Machine;
use super::process::{Nginx, serves};
use super::state::State;
use super::{Options, probes};
use crate::instance::listen;
use crate::instance::orphans::reap_orphans;

/// How long nginx has to end after a plain request to, before it is killed.
const LAST_WARNING: Duration = Duration::from_secs(2);

/// Why the agent gave up.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The port for the probes is not to be had.
    #[error("cannot listen on port {port} for probes: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// There is no configuration that nginx accepts, not even an earlier one.
    #[error("nothing to start nginx with: {0}")]
    NothingToServe(CheckError),
    /// nginx does not start.
    #[error("cannot start nginx: {0}")]
    Start(io::Error),
    /// nginx runs but does not answer.
    #[error("nginx did not answer within {0} s of its start")]
    Silent(u64),
    /// A signal handler or the clock of the kernel is missing.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The run folder cannot be written.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
}

/// Runs nginx until it is asked to stop, or until nginx dies. Gives the exit code of the container: 0 after a stop that was
/// asked for, otherwise nginx's own, with 128 added to the number of a signal.
///
/// # Errors
/// When nginx cannot be started, or does not serve.
pub async fn run(options: Options) -> Result<u8, AgentError> {
    let mut asked_to_stop = std::pin::pin!(asked_to_stop()?);
    generation::prepare(&options)?;
    drain(&options, false)?;
    let options = Arc::new(options);
    let (state, seen) = watch::channel(State::default());
    let listener = listen(options.probe_port).await;
    let listener: TcpListener = listener.map_err(|source| AgentError::Listen {
        port: options.probe_port,
        source,
    })?;
    let probes = tokio::spawn(probes::serve(listener, Arc::clone(&options), seen));
    let orphans = tokio::spawn(reap_orphans());
    let outcome = tokio::select! {
        () = &mut asked_to_stop => Ok(0),
        started = start(&options, state) => match started {
            Err(error) => Err(error),
            Ok((mut supervisor, mut nginx)) => live(&mut supervisor, &mut nginx, asked_to_stop).await,
        },
    };
    probes.abort();
    orphans.abort();
    outcome
}

/// Done when somebody asks for the end: the kubelet with the signal that the image names, which is SIGQUIT in nginx's own image and
/// SIGTERM in most others, or a person with SIGINT.
fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! { _ = terminate.recv() => (), _ = quit.recv() => (), _ = interrupt.recv() => () }
    })
}

/// Brings nginx up on the mounted configuration or, when that is refused, on the last one that was accepted in this pod.
async fn start(
    options: &Arc<Options>,
    state: watch::Sender<State>,
) -> Result<(Supervisor, Nginx), AgentError> {
    let machine = machine(options).await.map_err(AgentError::NothingToServe)?;
    let mut supervisor = Supervisor {
        options: Arc::clone(options),
        machine,
        state,
        refused: None,
    };
    let (name, config) = supervisor.first_generation().await?;
    let nginx = Nginx::start(options).map_err(AgentError::Start)?;
    supervisor.state.send_modify(|state| {
        state.generation = Some(name);
        state.config = config;
    });
    Ok((supervisor, nginx))
}

/// From the start of nginx to its end.
async fn live(
    supervisor: &mut Supervisor,
    nginx: &mut Nginx,
    asked_to_stop: impl Future<Output = ()>,
) -> Result<u8, AgentError> {
    let pid = nginx.pid();
    let outcome = tokio::select! {
        status = nginx.wait() => {
            let code = exit_code(status?);
            tracing::error!(code, "nginx ended unasked");
            Ok(code)
        }
        () = asked_to_stop => {
            supervisor.state.send_modify(|state| state.stopping = true);
            Ok(stop(&supervisor.options, nginx).await)
        }
        error = supervisor.follow(pid) => Err(error),
    };
    nginx.kill_all();
    outcome
}

struct Supervisor {
    options: Arc<Options>,
    machine: Machine,
    state: watch::Sender<State>,
    /// The generation that was refused last, and when.
    refused: Option<(String, Instant)>,
}

impl Supervisor {
    /// Activates the first generation; gives its name and the hash of its configuration.
    async fn first_generation(&mut self) -> Result<(String, Option<String>), AgentError> {
        match self.candidate().await {
            Ok((inputs, folder)) => {
                generation::activate(&self.options, &folder)?;
                let config = Some(inputs.config_hash());
                self.state.send_modify(|state| state.mounted.clone_from(&config));
                Ok((inputs.generation(), config))
            }
            Err(error) => {
                // The container was restarted while a bad configuration is mounted: its run folder is still there.
                let previous = generation::active(&self.options);
                let name = |folder: PathBuf| {
                    let name = folder.file_name()?.to_str()?.to_owned();
                    Some((name, generation::config(&folder)))
                };
                let Some((name, config)) = previous.and_then(name) else {
                    return Err(AgentError::NothingToServe(error));
                };
                tracing::error!(%error, generation = name, "the mounted configuration is refused; starting with the last good one");
                // It is tried again after a while, as any other that was refused.
                let refused = Inputs::read(&self.options).map(|inputs| inputs.generation());
                self.refused = Some((refused.unwrap_or_default(), Instant::now()));
                let mounted = mounted_config(&self.options);
                self.state.send_modify(|state| {
                    state.mounted = mounted;
                    state.refused = Some(error.to_string());
                });
                Ok((name, config))
            }
        }
    }

    async fn candidate(&self) -> Result<(Inputs, PathBuf), CheckError> {
        let inputs = Inputs::read(&self.options)?;
        let folder = generation::write(&self.options, &self.machine, &inputs)?;
        match check(&self.options, &folder).await {
            Ok(()) => Ok((inputs, folder)),
            Err(error) => {
                generation::discard(&self.options, &folder);
                Err(error)
            }
        }
    }

    /// Follows the mounted files for ever. Returns only if nginx does not begin to serve.
    async fn follow(&mut self, nginx: Pid) -> AgentError {
        let first = self.state.borrow().generation.clone().unwrap_or_default();
        let bound = self.options.timing.nginx;
        if !serves(&self.options, &first, bound).await {
            return AgentError::Silent(bound.as_secs());
        }
        tracing::info!(generation = first, cpus = self.machine.cpus, "nginx serves");
        let mut ticks = interval(self.options.timing.poll);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.refresh(nginx).await;
        }
    }

    /// Reloads nginx if the mounted files changed and nginx accepts them.
    async fn refresh(&mut self, nginx: Pid) {
        let inputs = match Inputs::read(&self.options) {
            Ok(inputs) => inputs,
            Err(error) => {
                let mounted = mounted_config(&self.options);
                self.state.send_modify(|state| state.mounted = mounted);
                return self.refuse(String::new(), error.to_string());
            }
        };
        let (name, mounted) = (inputs.generation(), inputs.config_hash());
        // What was said of other files is not said of these.
        self.refused.take_if(|(refused, _)| *refused != name);
        let refused = self.refused.as_ref().map(|(_, when)| *when);
        self.state.send_modify(|state| {
            state.mounted = Some(mounted);
            state.refused.take_if(|_| refused.is_none());
        });
        let retry = self.options.timing.retry_refused;
        if self.state.borrow().generation.as_ref() == Some(&name)
            || refused.is_some_and(|when| when.elapsed() < retry)
        {
            return;
        }
        match self.candidate().await {
            Err(error) => self.refuse(name, error.to_string()),
            // Read again for the candidate: the files may have changed in between, and then this is the newer.
            Ok((inputs, folder)) => match self.reload(nginx, &inputs, &folder).await {
                Ok(()) => self.adopt(&inputs),
                Err(message) => self.refuse(name, message),
            },
        }
    }

    /// Drains, swaps, reloads, and goes back in the same way if the new workers do not answer.
    async fn reload(&self, nginx: Pid, inputs: &Inputs, folder: &Path) -> Result<(), String> {
        let (options, timing) = (&*self.options, self.options.timing);
        let text = |error: Unwritable| error.to_string();
        let previous = generation::active(options);
        drain(options, true).map_err(text)?;
        sleep(timing.reload_drain).await;
        let outcome = self.turn_to(nginx, folder, &inputs.generation()).await;
        if let (Err(error), Some(previous)) = (&outcome, &previous) {
            tracing::error!(%error, "the reload failed; going back to the configuration before it");
            // Twice if need be: nginx may have been slow to take the new one, and would serve it later.
            let name = previous.file_name().unwrap_or_default().to_string_lossy();
            if let Err(error) = self.turn_to(nginx, previous, &name).await {
                tracing::error!(%error, "nginx was not seen to serve the configuration before the reload");
            }
        }
        if let Err(error) = drain(options, false) {
            // What serves is right all the same; only that connections are not kept alive.
            tracing::error!(%error, "answers go on to say `Connection: close`");
        }
        let superseded = match (&outcome, &previous) {
            (Ok(()), Some(previous)) => Some(previous.as_path()),
            (Ok(()), None) => None,
            (Err(_), _) => Some(folder),
        };
        // Never the active one, whichever that has come to be.
        superseded.inspect(|folder| generation::discard(options, folder));
        outcome
    }

    /// Points the link at a generation, has nginx read it, and waits until its workers answer with it.
    async fn turn_to(&self, nginx: Pid, folder: &Path, generation: &str) -> Result<(), String> {
        let (options, timing) = (&*self.options, self.options.timing);
        generation::activate(options, folder).map_err(|error| error.to_string())?;
        let _ = kill_process(nginx, Signal::HUP);
        let serving = serves(options, generation, timing.nginx).await;
        // Old workers are told a moment after new ones answer, and whoever talks to them is to hear `close`.
        sleep(timing.settle).await;
        if serving {
            Ok(())
        } else {
            Err("nginx did not take the new configuration".to_owned())
        }
    }

    fn adopt(&mut self, inputs: &Inputs) {
        let generation = inputs.generation();
        tracing::info!(generation, "nginx reloaded");
        self.refused = None;
        self.state.send_modify(|state| {
            state.generation = Some(generation);
            state.config = Some(inputs.config_hash());
            state.mounted.clone_from(&state.config);
            state.refused = None;
            state.reloads += 1;
        });
    }

    fn refuse(&mut self, generation: String, message: String) {
        let known = self.state.borrow().refused.as_ref() == Some(&message);
        if !known {
            tracing::error!(
                reason = message,
                "the mounted configuration is refused; the old one keeps serving"
            );
        }
        self.refused = Some((generation, Instant::now()));
        self.state.send_modify(|state| {
            state.refusals += u64::from(!known);
            state.refused = Some(message);
        });
    }
}

/// Keeps serving while load balancers learn that the pod goes, lets requests in flight end, then ends nginx.
async fn stop(options: &Options, nginx: &mut Nginx) -> u8 {
    let timing = options.timing;
    tracing::info!(
        drain_seconds = timing.stop_drain.as_secs(),
        "asked to stop: draining"
    );
    if let Err(error) = drain(options, true) {
        // A full run folder is no reason to cut off requests in flight: only that clients are not asked to leave.
        tracing::error!(%error, "stopping without asking clients to reconnect");
    }
    if nginx.ended_within(timing.stop_drain).await {
        return 0;
    }
    for (signal, bound) in [(Signal::QUIT, timing.stop), (Signal::TERM, LAST_WARNING)] {
        nginx.signal(signal);
        if nginx.ended_within(bound).await {
            tracing::info!("nginx stopped");
            return 0;
        }
        tracing::warn!(?signal, seconds = bound.as_secs(), "requests are still in flight");
    }
    0
}

fn drain(options: &Options, on: bool) -> Result<(), Unwritable> {
    let flag = options.drain_flag();
    let outcome = if on {
        fs::write(&flag, "")
    } else {
        fs::remove_file(&flag)
    };
    match outcome {
        Err(error) if on || error.kind() != io::ErrorKind::NotFound => Err(Unwritable::new(flag, error)),
        _ => Ok(()),
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
