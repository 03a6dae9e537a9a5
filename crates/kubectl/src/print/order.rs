//! The order in which the fields of known kinds are declared. What a command made itself is
//! printed in it; everything else by name.

/// Fields in the order of their declaration, by the field that holds them.
const ORDER: &[(&[&str], &str)] = &[
    (
        &["", "items"],
        "kind apiVersion metadata immutable data binaryData stringData involvedObject reason message source firstTimestamp lastTimestamp count type eventTime series action related reportingComponent reportingInstance secrets imagePullSecrets automountServiceAccountToken rules aggregationRule subjects roleRef value globalDefault description preemptionPolicy spec status groupVersion resources items preferences clusters users contexts current-context",
    ),
    (
        &["metadata"],
        "name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
    ),
    (&["ownerReferences"], "apiVersion kind name uid controller blockOwnerDeletion"),
    (&["managedFields"], "manager operation apiVersion time fieldsType fieldsV1 subresource"),
    (
        &["involvedObject", "related", "boundObjectRef"],
        "kind namespace name uid apiVersion resourceVersion fieldPath",
    ),
    (&["source"], "component host"),
    (&["rules"], "verbs apiGroups resources resourceNames nonResourceURLs host http"),
    (&["subjects"], "kind apiGroup name namespace"),
    (&["roleRef"], "apiGroup kind name"),
    (
        &["spec"],
        "podCIDR podCIDRs providerID unschedulable taints audiences expirationSeconds boundObjectRef scaleTargetRef minReplicas maxReplicas metrics behavior schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit failedJobsHistoryLimit parallelism completions backoffLimit minAvailable replicas ports selector clusterIP clusterIPs type externalIPs sessionAffinity loadBalancerIP loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution maxUnavailable template volumeClaimTemplates serviceName podManagementPolicy updateStrategy strategy minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds ingressClassName defaultBackend tls rules hard scopes volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints",
    ),
    (&["template", "jobTemplate"], "metadata spec"),
    (
        &["containers", "initContainers", "ephemeralContainers"],
        "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
    ),
    (
        &["ports"],
        "name hostPort containerPort protocol appProtocol port targetPort nodePort hostIP",
    ),
    (&["env"], "name value valueFrom"),
    (&["selector"], "matchLabels matchExpressions"),
    (&["matchExpressions"], "key operator values"),
    (
        &["resources"],
        "limits requests claims name singularName namespaced group version kind verbs shortNames categories",
    ),
    (&["strategy", "updateStrategy"], "type rollingUpdate"),
    (&["rollingUpdate"], "partition maxUnavailable maxSurge"),
    (&["taints"], "key value effect timeAdded"),
    (&["tolerations"], "key operator value effect tolerationSeconds"),
    (&["volumes"], "name"),
    (
        &["volumeMounts"],
        "name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr",
    ),
    (
        &["livenessProbe", "readinessProbe", "startupProbe"],
        "exec httpGet tcpSocket grpc initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds",
    ),
    (&["httpGet"], "path port host scheme httpHeaders"),
    (&["valueFrom"], "fieldRef resourceFieldRef configMapKeyRef secretKeyRef"),
    (&["configMapKeyRef", "secretKeyRef", "configMapRef", "secretRef"], "name key optional"),
    (&["envFrom"], "prefix configMapRef secretRef"),
    (&["fieldRef"], "apiVersion fieldPath"),
    (&["resourceFieldRef"], "containerName resource divisor"),
    (&["scaleTargetRef"], "kind name apiVersion"),
    (&["metrics"], "type object pods resource containerResource external"),
    (&["resource"], "name container target"),
    (&["target"], "type value averageValue averageUtilization"),
    (&["http"], "paths"),
    (&["paths"], "path pathType backend"),
    (&["backend", "defaultBackend"], "service resource"),
    (&["service"], "name port"),
    (&["port"], "name number"),
    (&["tls"], "hosts secretName"),
    (
        &["status"],
        "capacity allocatable token expirationTimestamp observedGeneration phase replicas lastScaleTime currentReplicas desiredReplicas currentMetrics disruptionsAllowed currentHealthy desiredHealthy expectedPods currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady updatedReplicas readyReplicas availableReplicas unavailableReplicas conditions loadBalancer",
    ),
    (
        &["conditions"],
        "type status observedGeneration lastHeartbeatTime lastProbeTime lastUpdateTime lastTransitionTime reason message",
    ),
    (&["userInfo"], "username uid groups extra"),
    (&["clusters"], "name cluster"),
    (&["users"], "name user"),
    (&["contexts"], "name context"),
    (
        &["cluster"],
        "server tls-server-name insecure-skip-tls-verify certificate-authority certificate-authority-data proxy-url disable-compression extensions",
    ),
    (&["exec"], "command args env apiVersion installHint provideClusterInfo interactiveMode"),
    (&["context"], "cluster user namespace extensions"),
    (
        &["user"],
        "client-certificate client-certificate-data client-key client-key-data token tokenFile as as-uid as-groups as-user-extra username password auth-provider exec extensions",
    ),
];

/// The place of a field among those of what holds it; after all others if it is not known.
pub(super) fn rank(parent: &str, field: &str) -> usize {
    let list = ORDER.iter().find(|(parents, _)| parents.contains(&parent));
    list.and_then(|(_, fields)| fields.split(' ').position(|other| other == field))
        .unwrap_or(usize::MAX)
}
