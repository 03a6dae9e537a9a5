//! Measures the latency of CRI calls. Not part of the usual run: `cargo test -p container -- --ignored costs`.

use std::{fs, time::Instant};

use container::cri::{
    CreateContainerRequest, RemoveContainerRequest, RemovePodSandboxRequest, RunPodSandboxRequest,
    StartContainerRequest,
};

use crate::support::{Runtime, shell, shim_of};

const ROUNDS: usize = 50;

#[derive(Default)]
struct Times(Vec<(&'static str, Vec<f64>)>);

impl Times {
    async fn take<T>(&mut self, what: &'static str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, all)) => all.push(took),
            None => self.0.push((what, vec![took])),
        }
        done
    }
}

#[tokio::test]
#[ignore = "measures"]
async fn medians_of_calls() {
    let mut runtime = Runtime::start().await;
    let (mut times, mut memory) = (Times::default(), Vec::new());
    for round in 0..ROUNDS {
        let config = Some(runtime.sandbox_config(&format!("p{round}")));
        let request = RunPodSandboxRequest { config, runtime_handler: String::new() };
        let run = times.take("RunPodSandbox", runtime.cri.runtime.run_pod_sandbox(request)).await;
        let pod = run.expect("run").into_inner().pod_sandbox_id;
        let config = Some(shell("a", "sleep 1000"));
        let request =
            CreateContainerRequest { pod_sandbox_id: pod.clone(), config, sandbox_config: None };
        let create = Box::pin(runtime.cri.runtime.create_container(request));
        let created = times.take("CreateContainer", create).await;
        let id = created.expect("create").into_inner().container_id;
        let request = StartContainerRequest { container_id: id.clone() };
        let start =
            times.take("StartContainer", runtime.cri.runtime.start_container(request)).await;
        start.expect("start");
        for _ in 0..3 {
            times.take("ExecSync", runtime.exec(&id, "true")).await.expect("exec");
        }
        memory.push(proportional(shim_of(&pod)));
        let request = RemoveContainerRequest { container_id: id };
        let remove =
            times.take("RemoveContainer", runtime.cri.runtime.remove_container(request)).await;
        remove.expect("remove");
        let request = RemovePodSandboxRequest { pod_sandbox_id: pod };
        let gone =
            times.take("RemovePodSandbox", runtime.cri.runtime.remove_pod_sandbox(request)).await;
        gone.expect("remove");
    }
    for (what, mut all) in times.0 {
        all.sort_by(f64::total_cmp);
        println!("{what:20} {:8.2} ms", all[all.len() / 2]);
    }
    memory.sort_unstable();
    println!("{:20} {:8} kB", "PSS of a shim", memory[memory.len() / 2]);
    runtime.end().await;
}

fn proportional(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a process");
    let line = text.lines().find(|line| line.starts_with("Pss:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}
