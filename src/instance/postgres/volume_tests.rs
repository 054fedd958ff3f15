//! The lock, what is on the volume, and what is put aside.

use rstest::rstest;

use super::*;

fn volume() -> (tempfile::TempDir, Options) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        volume: folder.path().to_owned(),
        run: folder.path().join("run"),
        ..Options::default()
    };
    (folder, options)
}

#[test]
fn nobody_else_has_a_locked_volume_until_it_is_given_up() {
    let (_folder, options) = volume();
    let first = Volume::lock(&options).unwrap();
    assert!(matches!(Volume::lock(&options), Err(VolumeError::Held(_))));
    drop(first);
    Volume::lock(&options).unwrap();
}

#[tokio::test]
async fn a_process_that_was_given_the_lock_keeps_it_and_is_found() {
    let (_folder, options) = volume();
    let first = Volume::lock(&options).unwrap();
    let mut command = Command::new("sh");
    command
        // A shell gives what it starts in the background another standard input, which PostgreSQL does not.
        .args(["-c", "exec 3<&0; sleep 60 <&3 & wait"])
        .stdin(first.hold().unwrap())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    drop(command);
    // What is started beside it does not get the lock.
    let mut other = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    while first.holders().unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(first);
    assert!(matches!(Volume::lock(&options), Err(VolumeError::Held(_))));
    child.kill().await.unwrap();
    assert!(
        matches!(Volume::lock(&options), Err(VolumeError::Held(_))),
        "its child has it too"
    );
    let lock = fs::metadata(options.lock()).unwrap();
    for pid in holders::of(lock.dev(), lock.ino()).unwrap() {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    for _ in 0..200 {
        if Volume::lock(&options).is_ok() {
            assert!(other.try_wait().unwrap().is_none());
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lock is still held");
}

#[tokio::test]
async fn data_that_was_never_finished_is_broken_and_can_be_put_aside() {
    let (_folder, options) = volume();
    let volume = Volume::lock(&options).unwrap();
    let bin = Path::new("/nowhere");
    assert_eq!(volume.data(bin, 17).await.unwrap(), Data::Empty);
    volume.begin("a base backup from orders-0").unwrap();
    let broken = Data::Broken("unfinished: a base backup from orders-0".to_owned());
    assert_eq!(volume.data(bin, 17).await.unwrap(), broken);
    fs::create_dir(options.data()).unwrap();
    assert_eq!(volume.put_aside().unwrap(), Some(aside_path(&options, 1)));
    assert_eq!(volume.put_aside().unwrap(), None);
    assert_eq!(volume.data(bin, 17).await.unwrap(), Data::Empty);
    fs::create_dir(options.data()).unwrap();
    assert_eq!(volume.put_aside().unwrap(), Some(aside_path(&options, 2)));
    Volume::remove_aside(options.clone()).await.unwrap();
    assert_eq!(volume.aside().unwrap(), []);
    assert!(options.lock().exists());
}

#[tokio::test]
async fn what_is_being_removed_is_put_aside_no_more_even_if_the_removal_is_never_done() {
    let (_folder, options) = volume();
    let volume = Volume::lock(&options).unwrap();
    fs::create_dir(options.data()).unwrap();
    volume.put_aside().unwrap();
    give_up(&options, &put_aside(&options).unwrap()).unwrap();
    assert_eq!(volume.aside().unwrap(), []);
    let remains = options.volume.join("data.1.removing");
    assert!(remains.exists());
    // The next has the same number.
    fs::create_dir(options.data()).unwrap();
    assert_eq!(volume.put_aside().unwrap(), Some(aside_path(&options, 1)));
    Volume::remove_remains(&options).await.unwrap();
    assert!(!remains.exists() && aside_path(&options, 1).exists());
    Volume::remove_aside(options.clone()).await.unwrap();
    assert!(!remains.exists() && !aside_path(&options, 1).exists());
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_not_taken_for_broken() {
    let (_folder, options) = volume();
    let volume = Volume::lock(&options).unwrap();
    fs::create_dir(options.data()).unwrap();
    fs::write(options.data().join("PG_VERSION"), "16\n").unwrap();
    control(&options, 8192);
    let error = volume.data(Path::new("/nowhere"), 17).await.unwrap_err();
    assert!(matches!(error, VolumeError::OtherVersion { .. }), "{error}");
    let error = volume.data(Path::new("/nowhere"), 16).await.unwrap_err();
    assert!(matches!(error, VolumeError::Run(_)), "{error}");
}

/// A control file of so many bytes.
fn control(options: &Options, length: usize) {
    let global = options.data().join("global");
    fs::create_dir_all(&global).unwrap();
    fs::write(global.join("pg_control"), vec![1; length]).unwrap();
}

/// What the disk or the kernel does to `pg_controldata` is not the data's fault.
#[rstest]
#[case::cannot_read(1 << 8, false)]
#[case::killed(9, false)]
#[case::stumbles_over_what_is_in_it(11, true)]
#[case::says_nothing_of_use(0, true)]
fn a_failure_of_pg_controldata_is_not_taken_for_broken_data(#[case] status: i32, #[case] broken: bool) {
    let output = Output {
        status: std::process::ExitStatus::from_raw(status),
        stdout: b"nothing".to_vec(),
        stderr: b"pg_controldata: error: could not read file: Input/output error".to_vec(),
    };
    match judge(&output, false) {
        Ok(Data::Broken(_)) => assert!(broken),
        Err(VolumeError::Controldata(why)) => assert!(!broken && why.contains("Input/output"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Of these `pg_controldata` cannot tell anything.
#[tokio::test]
async fn data_whose_control_file_is_gone_or_cut_is_broken() {
    let (_folder, options) = volume();
    let volume = Volume::lock(&options).unwrap();
    fs::create_dir(options.data()).unwrap();
    fs::write(options.data().join("PG_VERSION"), "16\n").unwrap();
    let bin = Path::new("/nowhere");
    let data = volume.data(bin, 16).await.unwrap();
    assert_eq!(data, Data::Broken("there is no global/pg_control".to_owned()));
    for length in [0, 100] {
        control(&options, length);
        let data = volume.data(bin, 16).await.unwrap();
        assert!(
            matches!(&data, Data::Broken(what) if what.contains("bytes")),
            "{data:?}"
        );
    }
}

/// A pipe that nobody writes to keeps whoever opens it, as a disk does that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_keeps_nobody_from_anything_else() {
    let (folder, options) = volume();
    let volume = Volume::lock(&options).unwrap();
    let pipe = options.unfinished();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(OpenOptions::new().write(true).open(&pipe).unwrap());
    });
    let began = std::time::Instant::now();
    let mut looks = std::pin::pin!(volume.data(folder.path(), 17));
    let meanwhile = timeout(Duration::from_millis(50), &mut looks).await;
    assert!(meanwhile.is_err() && began.elapsed() < Duration::from_millis(900));
    assert_eq!(looks.await.unwrap(), Data::Broken("unfinished: ".to_owned()));
    late.join().unwrap();
}
