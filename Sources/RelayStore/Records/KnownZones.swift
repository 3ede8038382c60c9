import Records
import RelayCore

/// The live zones that the writer knows, found by their addresses or, for less, by their numbers.
struct KnownZones {
    private var numbers: [ZoneID: Int64] = [:]
    private var zones: [Int64: Zone] = [:]

    var count: Int { zones.count }

    subscript(id: ZoneID) -> Zone? { numbers[id].flatMap { zones[$0] } }
    subscript(number: Int64) -> Zone? { zones[number] }

    /// Takes a zone in, or what it has become.
    mutating func keep(_ zone: Zone) {
        if zones.updateValue(zone, forKey: zone.number) == nil { numbers[zone.id] = zone.number }
    }

    mutating func forget(_ zone: Zone) {
        numbers[zone.id] = nil
        zones[zone.number] = nil
    }
}
