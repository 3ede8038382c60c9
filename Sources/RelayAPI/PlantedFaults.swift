import Records

// Where planted faults take hold in this module. Each is what the code would do anyway, and one mistake that the simulation
// has to find; in a release only the first is left.

extension NoticeHub {
    /// Whether a connection that has ended is forgotten.
    static var forgetsConnections: Bool { !PlantedFault.connectionKept.isPlanted }
}

extension RelayAdmission {
    /// Whether the sockets of a sign-in end with it.
    static var endsSockets: Bool { !PlantedFault.socketOutlivesSignOut.isPlanted }
}
