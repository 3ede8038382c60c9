import Records
import RelayCore

/// The zones that one commit changes, in the order of their first changes: what listeners hear of once it is done.
struct ChangedZones {
    private(set) var changes: [CommittedChange] = []
    /// The zones' numbers, in the same order.
    private var numbers: [Int64] = []
    /// Which of `changes` is that of a zone, by the zone's number.
    private var places: [Int64: Int] = [:]
    /// The same of zones that are gone, in whose places others may come.
    private var placesOfGone: [ZoneID: Int] = [:]
    /// The zone that was noted last: writes to one zone come together.
    private var latest: (number: Int64, place: Int)?

    /// Remembers that the zone has changed; `device` is one of `author`'s.
    mutating func note(_ zone: Zone, epoch: UInt64, by device: String, of author: UserID) {
        let token: ChangeToken? =
            zone.isDeleted
            ? nil : ChangeToken(kind: .zone, log: zone.identity, epoch: epoch, position: zone.lastChange)
        if let place = latest?.number == zone.number ? latest?.place : places[zone.number] {
            latest = (zone.number, place)
            numbers[place] = zone.number
            changes[place].token = token
            if changes[place].device != device || changes[place].author != author { changes[place].device = nil }
        } else {
            latest = (zone.number, changes.count)
            places[zone.number] = changes.count
            numbers.append(zone.number)
            changes.append(.init(zone: zone.id, token: token, device: device, author: author))
        }
    }

    /// A zone was made: where one of its address is gone, listeners hear of that address once.
    mutating func made(_ zone: Zone) {
        if let place = placesOfGone[zone.id] { places[zone.number] = place }
    }

    /// A zone that was noted is gone.
    mutating func gone(_ zone: Zone) { placesOfGone[zone.id] = places[zone.number] }

    /// Says whom besides the owners the changes concern: `audience` is asked about each zone that is shared.
    mutating func setAudiences(
        where isShared: (Int64) -> Bool,
        _ audience: (ZoneID) throws -> [CommittedChange.Participant]
    ) rethrows {
        for place in changes.indices where isShared(numbers[place]) {
            changes[place].audience = try audience(changes[place].zone)
        }
    }
}
