//! Where everything of an instance is.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::api::database::agent::{
    CREDENTIALS_DIR, DATA_DIR, PORT, POSTGRES_PORT, RUN_DIR, SERVER_TLS_DIR, SETTINGS, SETTINGS_DIR, TLS_DIR,
};

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The pod's name.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's UID.
    pub uid: String,
    /// The folder with the settings, as the ConfigMap is mounted.
    pub settings: PathBuf,
    /// The folder with `ca.crt`, `tls.crt` and `tls.key`, as the Secret is mounted.
    pub tls: PathBuf,
    /// The folder with the same of what PostgreSQL is to show, as the Secret is mounted; not there if the author names none.
    pub server_tls: PathBuf,
    /// The folder with `username` and `password` of the owner, as the Secret is mounted.
    pub credentials: PathBuf,
    /// Where the volume is mounted.
    pub volume: PathBuf,
    /// Where configuration, the copies of certificates and the socket live. Private, in memory, as it holds a key. At most 80 bytes long, since the path of
    /// a unix socket is limited.
    pub run: PathBuf,
    /// The folder with PostgreSQL's programs; looked for if there is none.
    pub bin: Option<PathBuf>,
    /// The address on which PostgreSQL listens; all if there is none.
    pub address: Option<IpAddr>,
    /// PostgreSQL's port.
    pub port: u16,
    /// The port of the instance manager's own HTTPS server.
    pub control_port: u16,
    /// The file whose content the kubelet shows of a container that has ended.
    pub termination_log: PathBuf,
    /// The user under which PostgreSQL's programs run, which refuse to run as root; the manager's own if there is none. What is made for them is given
    /// to that user. Only root can do so.
    pub user: Option<u32>,
}

impl Default for Options {
    /// As it is in a container, but for whose it is.
    fn default() -> Self {
        Self {
            name: String::new(),
            namespace: String::new(),
            uid: String::new(),
            settings: SETTINGS_DIR.into(),
            tls: TLS_DIR.into(),
            server_tls: SERVER_TLS_DIR.into(),
            credentials: CREDENTIALS_DIR.into(),
            volume: DATA_DIR.into(),
            run: RUN_DIR.into(),
            bin: None,
            address: None,
            port: POSTGRES_PORT,
            control_port: PORT,
            termination_log: "/dev/termination-log".into(),
            user: None,
        }
    }
}

impl Options {
    /// The settings, as the operator writes them.
    pub fn settings_file(&self) -> PathBuf {
        self.settings.join(SETTINGS)
    }

    /// The owner's password.
    pub fn password_file(&self) -> PathBuf {
        self.credentials.join("password")
    }

    /// PostgreSQL's data.
    pub fn data(&self) -> PathBuf {
        self.volume.join("data")
    }

    /// What is locked as long as anything uses the data.
    pub fn lock(&self) -> PathBuf {
        self.volume.join("lock")
    }

    /// There while the data is being made.
    pub fn unfinished(&self) -> PathBuf {
        self.volume.join("unfinished")
    }

    /// PostgreSQL's main configuration.
    pub fn postgresql_conf(&self) -> PathBuf {
        self.run.join("postgresql.conf")
    }

    /// Who may log in.
    pub fn pg_hba(&self) -> PathBuf {
        self.run.join("pg_hba.conf")
    }

    /// Which user of the system is which role.
    pub fn pg_ident(&self) -> PathBuf {
        self.run.join("pg_ident.conf")
    }

    /// The copies of certificates.
    pub fn certificates(&self) -> PathBuf {
        self.run.join("tls")
    }

    /// PostgreSQL's socket.
    pub fn socket(&self) -> PathBuf {
        self.run.join(format!(".s.PGSQL.{}", self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_where_the_pod_s_mounts_are() {
        let options = Options::default();
        let paths = [
            options.settings_file(),
            options.data(),
            options.lock(),
            options.postgresql_conf(),
            options.socket(),
        ];
        let paths = paths.map(|path| path.display().to_string());
        assert_eq!(
            paths,
            [
                "/etc/roadstead/postgres/instance.json",
                "/var/lib/roadstead/data",
                "/var/lib/roadstead/lock",
                "/run/roadstead/postgresql.conf",
                "/run/roadstead/.s.PGSQL.5432"
            ]
        );
    }
}
