//! Writes of a primary's own, to a PostgreSQL that is slow.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::super::options::Options;
use super::super::protocol::HUNG;
use super::senses::{Beats, beat};

/// Answers every write after this time: that it was carried out.
async fn serve(folder: &Path, port: u16, after: Duration) {
    let listener = UnixListener::bind(folder.join(format!(".s.PGSQL.{port}"))).unwrap();
    let mut sessions = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        sessions.spawn(session(client, after));
    }
}

async fn session(mut client: UnixStream, after: Duration) -> std::io::Result<()> {
    message(&mut client).await?;
    // Nothing has to be proved, and it is ready.
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
    while client.read_u8().await? == b'Q' {
        if message(&mut client).await?.starts_with(b"INSERT") {
            sleep(after).await;
        }
        client.write_all(b"C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05I").await?;
    }
    Ok(())
}

async fn message(client: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let length = client.read_u32().await?;
    let mut body = vec![0; length as usize - 4];
    client.read_exact(&mut body).await?;
    Ok(body)
}

#[tokio::test]
async fn a_disk_that_is_slow_is_not_taken_for_one_that_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        run: folder.path().to_owned(),
        ..Options::default()
    };
    let after = Duration::from_millis(3500);
    let (_leads, leading) = watch::channel(Some(Instant::now()));
    let (told, beats) = watch::channel(Beats::default());
    let mut tasks = JoinSet::new();
    let (at, port) = (folder.path().to_owned(), options.port);
    tasks.spawn(async move { serve(&at, port, after).await });
    tasks.spawn(beat(options, leading, told));
    let began = Instant::now();
    let mut commits = 0;
    let mut last = began;
    while began.elapsed() < after * 2 + Duration::from_secs(2) {
        sleep(Duration::from_millis(50)).await;
        if let Some(alive) = beats.borrow().alive.filter(|alive| *alive > last) {
            (commits, last) = (commits + 1, alive);
        }
        assert!(last.elapsed() < HUNG);
    }
    assert_eq!(commits, 2);
}
