//! Image pulls of containers, by `imagePullPolicy`.

use api::core::Pod;
use container::cri::{AuthConfig, Image, PodSandboxConfig};
use object::from_json;
use runtime::EventType;

use crate::{KubeletContext, objects::Data};

/// Why a container is waiting: reason and message.
pub(crate) type WaitingReason = (String, String);

/// An image, its pull policy, and the container that needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageRequest<'a> {
    pub(crate) container: &'a str,
    pub(crate) image: &'a str,
    pub(crate) policy: &'a str,
}

/// Returns the image of a container; pulls it first if its `imagePullPolicy` requires that.
pub(crate) async fn ensure_image_exists(
    host: &KubeletContext,
    pod: &Pod,
    wanted: ImageRequest<'_>,
    sandbox: &PodSandboxConfig,
) -> Result<Image, WaitingReason> {
    let ImageRequest { container, image: name, policy } = wanted;
    let record = |severity, reason: &str, message: String| {
        host.record_event(pod, container, severity, reason, message);
    };
    let present = host.runtime.image(name).await.map_err(|error| {
        (
            "ImageInspectError".to_owned(),
            format!("Failed to inspect image \"{name}\": {}", error.message()),
        )
    })?;
    match (policy, present) {
        ("Never", None) => {
            let message =
                format!("Container image \"{name}\" is not present with pull policy of Never");
            record(EventType::Warning, "ErrImageNeverPull", message.clone());
            return Err(("ErrImageNeverPull".into(), message));
        }
        ("Never" | "IfNotPresent" | "", Some(image)) => {
            let message = format!(
                "Container image \"{name}\" already present on machine and can be accessed by the pod"
            );
            record(EventType::Normal, "Pulled", message);
            return Ok(image);
        }
        _ => {}
    }
    record(EventType::Normal, "Pulling", format!("Pulling image \"{name}\""));
    let began = tokio::time::Instant::now();
    let auths = auths(host, pod, name).await;
    let mut last = None;
    let tries = auths.into_iter().map(Some).chain([None]);
    for auth in tries {
        match host.runtime.pull(name, auth, sandbox.clone()).await {
            Ok(_) => {
                last = None;
                break;
            }
            Err(error) => last = Some(error),
        }
    }
    if let Some(error) = last {
        let message = format!("failed to pull image \"{name}\": {}", error.message());
        record(
            EventType::Warning,
            "Failed",
            format!("Failed to pull image \"{name}\": {}", error.message()),
        );
        record(EventType::Warning, "Failed", "Error: ErrImagePull".into());
        return Err(("ErrImagePull".into(), message));
    }
    let pulled = host.runtime.image(name).await.ok().flatten().ok_or_else(|| {
        ("ErrImagePull".to_owned(), format!("image \"{name}\" is not there after it was pulled"))
    })?;
    let took = format!("{:.3}s", began.elapsed().as_secs_f64());
    let message = format!(
        "Successfully pulled image \"{name}\" in {took} ({took} including waiting). Image size: {} bytes.",
        pulled.size
    );
    record(EventType::Normal, "Pulled", message);
    Ok(pulled)
}

/// Credentials for the image from the pod's `imagePullSecrets`.
async fn auths(host: &KubeletContext, pod: &Pod, image: &str) -> Vec<AuthConfig> {
    let mut found = Vec::new();
    for secret in pod.spec().image_pull_secrets().iter() {
        match host.api_reader.secret(pod.metadata().namespace(), secret.name()).await {
            Ok(Some(data)) => found.extend(matching_credentials(&data, image)),
            Ok(None) => {
                let message = format!(
                    "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                    secret.name()
                );
                host.record_event(
                    pod,
                    "",
                    EventType::Warning,
                    "FailedToRetrieveImagePullSecret",
                    message,
                );
            }
            Err(error) => tracing::warn!(%error, "cannot read an image pull secret"),
        }
    }
    found
}

fn matching_credentials(data: &Data, image: &str) -> Vec<AuthConfig> {
    let all = match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
        (Some(file), _) => from_json(file).map(|tree| tree["auths"].clone()),
        (None, Some(file)) => from_json(file),
        (None, None) => return Vec::new(),
    };
    let Ok(all) = all else { return Vec::new() };
    let fits = |server: &str| {
        let place = server.split_once("://").map_or(server, |(_, rest)| rest);
        let place = place.trim_end_matches('/').trim_end_matches("/v1").trim_end_matches("/v2");
        image.strip_prefix(place).is_some_and(|rest| rest.starts_with(['/', ':', '@']))
    };
    let text = |value: &object::Value| value.as_str().unwrap_or_default().to_owned();
    all.entries()
        .filter(|(server, _)| fits(server))
        .map(|(server, auth)| AuthConfig {
            username: text(&auth["username"]),
            password: text(&auth["password"]),
            auth: text(&auth["auth"]),
            server_address: server.to_owned(),
            identity_token: text(&auth["identitytoken"]),
            registry_token: text(&auth["registrytoken"]),
        })
        .collect()
}

#[test]
fn credentials_fit_by_place() {
    let file = br#"{"auths": {"https://registry.test/v2/": {"username": "u", "password": "p"}, "other.test": {"auth": "x"}}}"#;
    let data: Data = [(".dockerconfigjson".to_owned(), file.to_vec())].into();
    let found = matching_credentials(&data, "registry.test/a/b:1");
    assert_eq!((found.len(), found[0].username.as_str()), (1, "u"));
    assert!(matching_credentials(&data, "registry.test.evil/a").is_empty());
}
