//! Changes of a pod through its own paths: new ephemeral containers, other resources.

use object::List;

use super::Pod;
use crate::core::Container;

impl Pod {
    /// This pod with the ephemeral containers of `new`, and nothing else of it. The
    /// error says what is wrong: containers can only be added.
    pub fn with_ephemeral_containers(&self, new: &Self) -> Result<Self, String> {
        let (old, wanted) = (self.spec().ephemeral_containers(), new.spec().ephemeral_containers());
        for container in old.iter() {
            let name = container.as_container().name();
            match wanted.find(|new| new.as_container().name() == name) {
                None => return Err("existing ephemeral containers may not be removed".to_owned()),
                Some(new) if new != container => {
                    return Err(format!(
                        "existing ephemeral containers \"{name}\" may not be changed"
                    ));
                }
                Some(_) => {}
            }
        }
        let mut pod = self.clone();
        pod.spec_mut().set_ephemeral_containers(wanted.clone());
        Ok(pod)
    }

    /// This pod with the resources that `new` asks for, and nothing else of it.
    pub fn with_resources_of(&self, new: &Self) -> Self {
        let mut pod = self.clone();
        let resize = |old: &mut List<Container>, new: &List<Container>| {
            if old.is_empty() {
                return;
            }
            for container in old.iter_mut() {
                if let Some(new) = new.find(|new| new.name() == container.name()) {
                    container.set_resources(new.resources().clone());
                    container.set_resize_policy(new.resize_policy().clone());
                }
            }
        };
        resize(pod.spec_mut().containers_mut(), new.spec().containers());
        if !self.spec().init_containers().is_empty() {
            resize(pod.spec_mut().init_containers_mut(), new.spec().init_containers());
        }
        if let Some(resources) = new.spec().resources() {
            pod.spec_mut().set_resources(resources.clone());
        }
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn ephemeral_containers_only_come() {
        let pod: Pod = created(
            r#"{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
        );
        let mut new = pod.clone();
        new.spec_mut().set_node_name("elsewhere");
        let debug = crate::core::EphemeralContainer::new().with_target_container_name("c");
        new.spec_mut().set_ephemeral_containers([debug]);
        let with = pod.with_ephemeral_containers(&new).expect("one more");
        assert_eq!(with.spec().node_name(), "");
        assert_eq!(with.spec().ephemeral_containers().len(), 1);
        assert!(with.with_ephemeral_containers(&pod).is_err());
    }
}
