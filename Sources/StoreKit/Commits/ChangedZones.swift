package import Records
package import RelayCore

/// The zones that one commit changes, in the order of their first changes.
///
/// They are reported once the commit is done.
package struct ChangedZones {
    package private(set) var changes: [CommittedChange] = []
    /// The numbers of the zones, in the same order.
    private var numbers: [Int64] = []
    /// The number of the first zone: most commits change no other, and need no dictionary.
    private var first: Int64?
    /// The index in `changes` of each other zone, by zone number.
    private var places: [Int64: Int] = [:]
    /// The same for deleted zones, by ID: a new zone with that ID takes over the index.
    private var placesOfDeleted: [ZoneID: Int] = [:]
    /// The zone that was noted last: writes to one zone come together.
    private var latest: (number: Int64, place: Int)?

    package init() {}

    /// Records that the zone has changed; `device` is the device of `author` that changed it.
    package mutating func note(_ zone: Zone, epoch: UInt64, by device: String, of author: UserID) {
        let token: ChangeToken? =
            zone.isDeleted
            ? nil : ChangeToken(kind: .zone, log: zone.identity, epoch: epoch, position: zone.lastChange)
        if let place = latest?.number == zone.number ? latest?.place : place(of: zone.number) {
            latest = (zone.number, place)
            numbers[place] = zone.number
            changes[place].token = token
            if changes[place].device != device || changes[place].author != author { changes[place].device = nil }
        } else {
            latest = (zone.number, changes.count)
            if changes.isEmpty { first = zone.number } else { places[zone.number] = changes.count }
            numbers.append(zone.number)
            changes.append(.init(zone: zone.id, token: token, device: device, author: author))
        }
    }

    private func place(of number: Int64) -> Int? { number == first ? 0 : places[number] }

    /// Records that a zone was created.
    ///
    /// If the commit also deleted a zone with this ID, both are reported as one change.
    package mutating func zoneCreated(_ zone: Zone) {
        if let place = placesOfDeleted[zone.id] { places[zone.number] = place }
    }

    /// Records that a zone was deleted.
    package mutating func zoneDeleted(_ zone: Zone) { placesOfDeleted[zone.id] = place(of: zone.number) }

    /// Returns the zones for which `isShared` is true.
    package func changes(where isShared: (Int64) -> Bool) -> [ZoneID] {
        changes.indices.filter { isShared(numbers[$0]) }.map { changes[$0].zone }
    }

    /// Sets the participants to notify of each zone.
    package mutating func setAudiences(_ audiences: [ZoneID: [CommittedChange.Participant]]) {
        for place in changes.indices {
            if let audience = audiences[changes[place].zone] { changes[place].audience = Self.recipients(audience) }
        }
    }
}
