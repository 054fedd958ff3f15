//! Deployments whose template changes.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::deployments::{deployment, is_observed, numbers, present, until_complete};
use super::{IMAGE, Place, is_going, name_of, number, said, template};
use crate::pretence::MISSING;

const ANOTHER: &str = "nginx:2";
const REVISION: &str = "deployment.kubernetes.io/revision";

async fn use_image(place: &Place, image: &str) {
    let template = template("a", image, &[]);
    place
        .patch::<Deployment>("a", json!({"spec": {"template": template}}))
        .await;
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

fn is_ready(pod: &Value) -> bool {
    said(pod, "Ready")[0] == "True"
}

/// How many pods each ReplicaSet is to have, by the images.
async fn shares(place: &Place) -> Vec<(String, u64)> {
    let sets = place.all::<ReplicaSet>().await;
    let share = |set: &Value| {
        let image = image(&set["spec"]["template"]).to_owned();
        (image, number(&set["spec"]["replicas"]))
    };
    let mut shares: Vec<_> = sets.iter().map(share).collect();
    shares.sort();
    shares
}

pub async fn a_rollout_spares_what_the_strategy_says(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(4, "nginx:0", json!({})))
        .await
        .unwrap();
    until_complete(&place, 4).await;
    for (nth, (surge, missing, most, fewest)) in [
        (json!(1), json!(0), 5, 4),
        (json!(0), json!(1), 4, 3),
        // 1 more and 1 fewer, of 4.
        (json!("25%"), json!("25%"), 5, 3),
        // 2 more, rounded up; 1 fewer, rounded down.
        (json!("40%"), json!("40%"), 6, 3),
        // None more and none fewer would be no rollout.
        (json!("0%"), json!("10%"), 4, 3),
    ]
    .into_iter()
    .enumerate()
    {
        let strategy = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}});
        place
            .patch::<Deployment>("a", json!({"spec": {"strategy": strategy}}))
            .await;
        until_complete(&place, 4).await;
        let (pods, sets) = (place.follow::<Pod>().await, place.follow::<ReplicaSet>().await);
        let deployments = place.follow::<Deployment>().await;
        let image = format!("nginx:{}", nth + 1);
        use_image(&place, &image).await;
        until_complete(&place, 4).await;
        assert!(present(&place).await.iter().all(|pod| self::image(pod) == image));
        let ready = pods.over_time(|pods| {
            let ready = pods.iter().filter(|pod| is_ready(pod) && !is_going(pod));
            u64::try_from(ready.count()).unwrap()
        });
        let ready = ready.await;
        let least = ready.into_iter().min().unwrap();
        // Without one more, one has to go first.
        assert!(
            least >= fewest && (most > 4 || least == fewest),
            "{least} ready pods: {strategy}"
        );
        // Those of one ReplicaSet may come a moment before those of another one go, so that there are more pods than there are to be.
        let wanted = sets.over_time(|sets| sets.iter().map(|set| number(&set["spec"]["replicas"])).sum());
        assert_eq!(
            wanted.await.into_iter().max(),
            Some(most),
            "pods at most: {strategy}"
        );
        for (_, deployment) in deployments
            .told()
            .await
            .iter()
            .filter(|(_, told)| is_observed(told))
        {
            let [all, updated, _, available, _] = numbers(deployment);
            assert!(
                updated <= all && available >= fewest,
                "{:#}",
                deployment["status"]
            );
        }
    }
}

pub async fn a_rollout_that_gets_nowhere_says_so_and_the_old_pods_stay(place: Place) {
    const MORE: &str = "progressDeadlineSeconds";
    let missing = format!("nginx-{MISSING}:1");
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, IMAGE, json!({MORE: 2})))
        .await
        .unwrap();
    until_complete(&place, 2).await;
    let old = place.all::<ReplicaSet>().await;
    use_image(&place, &missing).await;
    let is_stuck = |deployment: &Value| {
        said(deployment, "Progressing") == json!(["False", "ProgressDeadlineExceeded"])
            && numbers(deployment) == [3, 1, 2, 2, 1]
    };
    let stuck = place.until::<Deployment>("a", "stuck", is_stuck).await;
    assert!(is_observed(&stuck));
    assert_eq!(
        said(&stuck, "Available"),
        json!(["True", "MinimumReplicasAvailable"])
    );
    let stays = [(missing.clone(), 1), (IMAGE.to_owned(), 2)];
    assert_eq!(shares(&place).await, stays);

    // An old pod that goes comes back as an old one.
    let pods = present(&place).await;
    let lost = pods.iter().find(|pod| image(pod) == IMAGE).unwrap();
    place
        .api::<Pod>()
        .delete(name_of(lost), &DeleteParams::background())
        .await
        .unwrap();
    place
        .until_all::<Pod>("there is another old one", |pods| {
            let old = pods
                .iter()
                .filter(|pod| image(pod) == IMAGE && is_ready(pod) && !is_going(pod));
            old.filter(|pod| name_of(pod) != name_of(lost)).count() == 2
        })
        .await;
    place.until::<Deployment>("a", "stuck again", is_stuck).await;
    assert_eq!(shares(&place).await, stays);

    use_image(&place, IMAGE).await;
    until_complete(&place, 2).await;
    assert_eq!(shares(&place).await, [(missing, 0), (IMAGE.to_owned(), 2)]);
    let sets = place.all::<ReplicaSet>().await;
    assert!(
        sets.iter()
            .any(|set| set["metadata"]["uid"] == old[0]["metadata"]["uid"])
    );
}

/// Its status then says of the present spec that the new ReplicaSet is available, though it has no pod yet.
pub async fn an_earlier_template_finds_its_replica_set_again(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(2, IMAGE, json!({})))
        .await
        .unwrap();
    until_complete(&place, 2).await;
    let first = place.all::<ReplicaSet>().await[0]["metadata"]["uid"].clone();
    use_image(&place, ANOTHER).await;
    until_complete(&place, 2).await;
    let history = place.follow::<Deployment>().await;
    use_image(&place, IMAGE).await;
    until_complete(&place, 2).await;
    assert_eq!(history.first[0]["metadata"]["annotations"][REVISION], "2");
    let deployment = place.find::<Deployment>("a").await.unwrap();
    assert_eq!(deployment["metadata"]["annotations"][REVISION], "3");
    assert_eq!(deployment["metadata"]["generation"], 3, "that does not count");
    let mut sets = place.all::<ReplicaSet>().await;
    assert_eq!(sets.len(), 2);
    sets.retain(|set| number(&set["status"]["replicas"]) == 2);
    assert_eq!(sets[0]["metadata"]["uid"], first);
    assert_eq!(sets[0]["metadata"]["annotations"][REVISION], "3");
    let progress = history
        .course(|deployment| said(deployment, "Progressing")[1].clone())
        .await;
    let expected = [
        "NewReplicaSetAvailable",
        "ReplicaSetUpdated",
        "NewReplicaSetAvailable",
    ];
    assert_eq!(json!(progress), json!(expected));
    let told = history.told().await;
    let mut observed = told.iter().filter(|(_, deployment)| is_observed(deployment));
    let (_, seen) = observed.next().unwrap();
    assert_eq!(said(seen, "Progressing")[1], "NewReplicaSetAvailable");
    assert_eq!(numbers(seen)[..4], [2, 0, 2, 2]);
}

pub async fn scaling_in_a_rollout_is_shared_out(place: Place) {
    let missing = format!("nginx-{MISSING}:1");
    place.config("good").await;
    place
        .create::<Deployment>(deployment(4, IMAGE, json!({})))
        .await
        .unwrap();
    until_complete(&place, 4).await;
    use_image(&place, &missing).await;
    let until_shares = async |old: u64, new: u64| {
        place
            .until_all::<ReplicaSet>(&format!("{old} old pods and {new} new ones"), |sets| {
                let has = |image: &str, count: u64| {
                    sets.iter().any(|set| {
                        self::image(&set["spec"]["template"]) == image
                            && number(&set["spec"]["replicas"]) == count
                    })
                };
                has(IMAGE, old) && has(&missing, new)
            })
            .await;
    };
    // One may be missing, and one too many.
    until_shares(3, 2).await;
    place
        .patch::<Deployment>("a", json!({"spec": {"replicas": 8}}))
        .await;
    until_shares(6, 4).await;
    let is_there = |deployment: &Value| is_observed(deployment) && numbers(deployment) == [10, 4, 6, 6, 4];
    let deployment = place.until::<Deployment>("a", "there", is_there).await;
    assert_eq!(
        said(&deployment, "Available"),
        json!(["True", "MinimumReplicasAvailable"])
    );
    place
        .patch::<Deployment>("a", json!({"spec": {"replicas": 3}}))
        .await;
    until_shares(2, 2).await;
}

pub async fn old_replica_sets_are_forgotten(place: Place) {
    place.config("good").await;
    place
        .create::<Deployment>(deployment(1, IMAGE, json!({"revisionHistoryLimit": 1})))
        .await
        .unwrap();
    until_complete(&place, 1).await;
    for image in [ANOTHER, "nginx:3"] {
        use_image(&place, image).await;
        until_complete(&place, 1).await;
    }
    place
        .until_all::<ReplicaSet>("two are left", |sets| sets.len() == 2)
        .await;
    assert_eq!(
        shares(&place).await,
        [(ANOTHER.to_owned(), 0), ("nginx:3".to_owned(), 1)]
    );
}
