//! The `Maintenance` and `Cluster` services of etcd.

use std::pin::Pin;

use bytes::Bytes;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{backup, fault::EtcdError, kv::refused, service::Service, state::State};
use crate::wire::{
    pb::{
        self, alarm_request::AlarmAction, cluster_server::Cluster, maintenance_server::Maintenance,
    },
    to_i64,
};

/// The etcd version whose API this server implements.
pub(super) const VERSION: &str = "3.7.0";

type Parts = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Maintenance for Service {
    async fn alarm(
        &self,
        request: Request<pb::AlarmRequest>,
    ) -> Result<Response<pb::AlarmResponse>, Status> {
        let request = request.into_inner();
        let member_id = self.member_id;
        let alarm = || pb::AlarmMember { member_id, alarm: pb::AlarmType::Nospace.into() };
        let meant = matches!(request.alarm(), pb::AlarmType::Nospace | pb::AlarmType::None)
            && (request.member_id == 0 || request.member_id == member_id);
        let on = self.member.read(|state| state.alarm);
        let alarms = match request.action() {
            AlarmAction::Get => on,
            AlarmAction::Activate | AlarmAction::Deactivate if !meant => false,
            AlarmAction::Activate => {
                self.set_alarm(true).await?;
                true
            }
            AlarmAction::Deactivate => {
                self.set_alarm(false).await?;
                on
            }
        };
        let alarms = if alarms { vec![alarm()] } else { Vec::new() };
        Ok(Response::new(pb::AlarmResponse { header: self.header(), alarms }))
    }

    async fn status(
        &self,
        _: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        let (bytes, quota, alarm, index) = self
            .member
            .read(|state| (state.keys.bytes, state.quota, state.alarm, state.durable_position()));
        let id = self.member_id;
        let errors = if alarm { vec![format!("memberID:{id} alarm:NOSPACE ")] } else { Vec::new() };
        Ok(Response::new(pb::StatusResponse {
            header: self.header(),
            version: VERSION.into(),
            db_size: to_i64(bytes),
            db_size_in_use: to_i64(bytes),
            db_size_quota: to_i64(quota),
            leader: id,
            raft_index: index,
            raft_applied_index: index,
            raft_term: 2,
            errors,
            is_learner: false,
            storage_version: VERSION.into(),
            downgrade_info: Some(pb::DowngradeInfo::default()),
        }))
    }

    /// Does nothing: space is reclaimed automatically.
    async fn defragment(
        &self,
        _: Request<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        Ok(Response::new(pb::DefragmentResponse { header: self.header() }))
    }

    async fn hash(
        &self,
        _: Request<pb::HashRequest>,
    ) -> Result<Response<pb::HashResponse>, Status> {
        let hash = self.member.read(|state| backup::hash(state, state.durable));
        Ok(Response::new(pb::HashResponse { header: self.header(), hash }))
    }

    async fn hash_kv(
        &self,
        request: Request<pb::HashKvRequest>,
    ) -> Result<Response<pb::HashKvResponse>, Status> {
        let asked = u64::try_from(request.into_inner().revision).unwrap_or_default();
        let (hash, floor, revision) = self.member.read(|state| {
            let revision = if asked == 0 { state.durable } else { asked };
            if revision > state.durable {
                return Err(EtcdError::Future);
            } else if revision < state.keys.compact_revision {
                return Err(EtcdError::Compacted);
            }
            Ok((backup::hash(state, revision), state.keys.compact_revision, revision))
        })?;
        Ok(Response::new(pb::HashKvResponse {
            header: self.header(),
            hash,
            compact_revision: if floor == 0 { -1 } else { to_i64(floor) },
            hash_revision: to_i64(revision),
        }))
    }

    type SnapshotStream = Parts;

    async fn snapshot(&self, _: Request<pb::SnapshotRequest>) -> Result<Response<Parts>, Status> {
        let (member, scratch, header) = (self.member.clone(), self.scratch.clone(), self.header());
        let made =
            tokio::task::spawn_blocking(move || backup::SnapshotReader::make(&member, &scratch))
                .await;
        let failed = |what: String| Status::internal(format!("cannot make a snapshot: {what}"));
        let mut backup =
            made.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        let parts = std::iter::from_fn(move || match backup.next() {
            Ok(None) => None,
            Ok(Some((blob, remaining_bytes))) => Some(Ok(pb::SnapshotResponse {
                header,
                remaining_bytes,
                blob: Bytes::from(blob),
                version: VERSION.into(),
            })),
            Err(error) => Some(Err(failed(error.to_string()))),
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn move_leader(
        &self,
        _: Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        Err(refused("moving the leader"))
    }

    async fn downgrade(
        &self,
        _: Request<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        Err(refused("a downgrade"))
    }
}

impl Service {
    async fn set_alarm(&self, on: bool) -> Result<(), EtcdError> {
        let set = |state: &mut State| {
            state.set_alarm(on);
            Ok(())
        };
        self.member.write(set).await
    }
}

#[tonic::async_trait]
impl Cluster for Service {
    async fn member_list(
        &self,
        _: Request<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        let members = vec![self.description()];
        Ok(Response::new(pb::MemberListResponse { header: self.header(), members }))
    }

    async fn member_add(
        &self,
        _: Request<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        Err(refused("a second member"))
    }

    async fn member_remove(
        &self,
        _: Request<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        Err(refused("removing the only member"))
    }

    async fn member_update(
        &self,
        _: Request<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        Err(refused("changing peers"))
    }

    async fn member_promote(
        &self,
        _: Request<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        Err(refused("promoting a member"))
    }
}
