import Records

// The faults that the simulation can plant in this module and must find. In a release build, only the correct behaviour
// is compiled.

extension NoticeHub {
    /// Whether the hub removes connections that have ended.
    static var removesEndedConnections: Bool { !PlantedFault.connectionKept.isPlanted }
}

extension NoticeSweep {
    /// Whether the sweep announces what the bus has lost.
    static var announcesMissed: Bool { !PlantedFault.lostNoticeUnswept.isPlanted }

    /// Whether the sweep refreshes a schema of another version.
    static var refreshesSchema: Bool { !PlantedFault.schemaStale.isPlanted }

    /// Whether the sweep refreshes subscriptions of another version.
    static var refreshesSubscriptions: Bool { !PlantedFault.subscriptionsStale.isPlanted }
}

extension PushOwner {
    /// Whether only one of the nodes sends a push.
    static var isOneNode: Bool { !PlantedFault.pushSentTwice.isPlanted }
}

extension CredentialCache {
    /// Whether cached sign-ins are checked again after a revocation.
    static var clearsSessions: Bool { !PlantedFault.revokedSignInRemembered.isPlanted }
}

extension InterruptedUploads.Part {
    /// The offset at which an interrupted upload resumes: the number of bytes received.
    var resumeOffset: Int64 { PlantedFault.uploadResumedWrong.isPlanted ? max(0, size - 1) : size }
}

extension RelayAdmission {
    /// Whether the sockets of a session are closed when the session ends.
    static var endsSockets: Bool { !PlantedFault.socketOutlivesSignOut.isPlanted }
}
