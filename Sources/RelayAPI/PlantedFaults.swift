import Records

// Where planted faults take hold in this module. Each is what the code would do anyway, and one mistake that the simulation
// has to find; in a release only the first is left.

extension NoticeHub {
    /// Whether a connection that has ended is forgotten.
    static var forgetsConnections: Bool { !PlantedFault.connectionKept.isPlanted }
}

extension Memory {
    /// Whether sign-ins that were found good are looked at again once something was revoked.
    static var forgetsSignIns: Bool { !PlantedFault.revokedSignInRemembered.isPlanted }
}

extension BrokenUploads.Part {
    /// From where the rest is to be sent: the end of what came.
    var reach: Int64 { PlantedFault.uploadResumedWrong.isPlanted ? max(0, size - 1) : size }
}

extension RelayAdmission {
    /// Whether the sockets of a sign-in end with it.
    static var endsSockets: Bool { !PlantedFault.socketOutlivesSignOut.isPlanted }
}
