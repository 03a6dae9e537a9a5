//! Tests of the event recorder.

use std::time::Duration;

use runtime::{Context, EventRecorder, EventType, InvolvedObject};
use tokio::{task::JoinSet, time::sleep};

use crate::{kinds::set, server::Server};

#[tokio::test(start_paused = true)]
async fn the_same_again_counts_up_and_many_become_one() {
    let (server, mut tasks) = (Server::default(), JoinSet::new());
    let cx = Context::new(&server.client(&mut tasks));
    let recorder = EventRecorder::start(&cx, "set-controller", "n1");
    for _ in 0..3 {
        recorder.normal(&set("s", 1), "Created", "made an item");
    }
    sleep(Duration::from_secs(1)).await;
    let all = server.all("events");
    assert_eq!(all.len(), 1);
    let event = &all[0];
    assert_eq!(event["count"].as_i64(), Some(3));
    assert_eq!(event["involvedObject"]["kind"].as_str(), Some("Set"));
    assert_eq!(event["involvedObject"]["apiVersion"].as_str(), Some("test/v1"));
    assert_eq!(event["source"]["component"].as_str(), Some("set-controller"));
    assert_eq!(event["type"].as_str(), Some("Normal"));
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("s."));

    for i in 0..15 {
        let about = InvolvedObject::of(&set("t", 1)).with_field_path("spec.containers{web}");
        recorder.record(about, EventType::Warning, "Failed", format!("try {i}"));
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let all = server.all("events");
    assert_eq!(all.len(), 1 + 9 + 1, "nine of their own, the rest in one");
    let combined = all.iter().find(|event| {
        event["message"].as_str().unwrap().starts_with("(combined from similar events): ")
    });
    assert_eq!(combined.unwrap()["count"].as_i64(), Some(6));

    for _ in 0..100 {
        recorder.warning(&set("u", 1), "Noise", "again");
    }
    sleep(Duration::from_secs(1)).await;
    let all = server.all("events");
    let noise = all.iter().find(|event| event["reason"].as_str() == Some("Noise")).unwrap();
    assert_eq!(noise["count"].as_i64(), Some(25), "the rest is dropped");
    cx.stop().await;
}
