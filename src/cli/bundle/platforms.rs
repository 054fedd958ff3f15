//! What images of a bundle are for, as their registries say.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::time::timeout;

use super::images::Access;
use crate::cli::Failure;
use crate::cli::progress::Progress;
use crate::cli::stop::until_stopped;
use crate::olm::oci::registry::Limits;
use crate::olm::oci::{Name, Platform};
use crate::olm::registry_v1::Platforms;

/// So many images are asked for at once: most of the time is waited for.
const AT_ONCE: usize = 4;
/// How long one of them may take, with all attempts: a registry that is not there is no reason to wait for ever, as there may be many images.
const DEADLINE: Duration = Duration::from_secs(120);

/// Asks for each of these images. That one cannot be asked for, or there is no answer, is among what is given.
///
/// # Errors
/// What is wrong with the options, whatever the image; or it was told to stop.
pub(super) fn of(images: &BTreeSet<&str>, access: &Access) -> Result<Platforms, Failure> {
    access.options()?;
    until_stopped(async { Ok(each(images, async |image| ask(image, access).await).await) })
}

async fn ask(image: &str, access: &Access) -> Result<BTreeSet<Platform>, Failure> {
    // As the kubelet reads it, which pulls it
    let name = Name::guessed("image", image)?;
    // Several are under way, and the last that moved is seen until one ends
    let progress = Progress::shared();
    let mut registry = access
        .registry(&name, Limits::default().largest, progress)
        .await?;
    Ok(registry.platforms().await?)
}

async fn each(
    images: &BTreeSet<&str>,
    ask: impl AsyncFn(&str) -> Result<BTreeSet<Platform>, Failure>,
) -> Platforms {
    let ask = &ask;
    let answers = images.iter().map(|image| async move {
        let answer = match timeout(DEADLINE, ask(image)).await {
            Ok(answer) => answer.map_err(|why| why.to_string()),
            Err(_) => Err(format!("there was no answer within {} s", DEADLINE.as_secs())),
        };
        ((*image).to_owned(), answer)
    });
    stream::iter(answers).buffer_unordered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn four_are_asked_at_once() {
        let images = BTreeSet::from(["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
        let begun = Instant::now();
        let answers = each(&images, async |_| {
            sleep(Duration::from_secs(1)).await;
            Ok(BTreeSet::new())
        });
        assert_eq!(answers.await.len(), images.len());
        assert_eq!(begun.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_image_of_a_silent_registry_is_given_up_and_the_others_are_not() {
        let images = BTreeSet::from(["a", "silent"]);
        let answers = each(&images, async |image| match image {
            "silent" => std::future::pending().await,
            _ => Ok(BTreeSet::from([Platform::linux("amd64")])),
        });
        let answers = answers.await;
        assert_eq!(answers["a"], Ok(BTreeSet::from([Platform::linux("amd64")])));
        assert_eq!(
            answers["silent"],
            Err("there was no answer within 120 s".to_owned())
        );
    }
}
