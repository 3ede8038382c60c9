import Records

// The faults that the simulation can plant in this module and must find. In a release build, only the correct behaviour
// is compiled.

extension NoticeHub {
    /// Whether the hub removes connections that have ended.
    static var forgetsConnections: Bool { !PlantedFault.connectionKept.isPlanted }
}

extension Memory {
    /// Whether cached sign-ins are checked again after a revocation.
    static var forgetsSignIns: Bool { !PlantedFault.revokedSignInRemembered.isPlanted }
}

extension BrokenUploads.Part {
    /// The offset at which an interrupted upload resumes: the number of bytes received.
    var reach: Int64 { PlantedFault.uploadResumedWrong.isPlanted ? max(0, size - 1) : size }
}

extension RelayAdmission {
    /// Whether the sockets of a session are closed when the session ends.
    static var endsSockets: Bool { !PlantedFault.socketOutlivesSignOut.isPlanted }
}
