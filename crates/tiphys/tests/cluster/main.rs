//! Tests of whole clusters as users run them: the built executable, real containers, network namespaces without
//! external connectivity. Each file is one scenario.

mod bad_input;
mod comes_and_goes;
mod components;
mod config_overrides;
mod etcd;
mod first_minute;
mod images;
mod kills;
mod node;
mod other_names;
mod pods;
mod programs;
mod quorum;
mod second_node;
mod services;
mod settings;
#[path = "../security/image.rs"]
#[allow(dead_code, reason = "shared with the attacks, which use more of it")]
mod shell_image;
mod snapshots;
mod two_clusters;
mod words;
mod world;
