import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

private struct Appointment: SyncedRecord {
    var id = RecordName()
    var title = ""
    var at = Date(timeIntervalSince1970: 0)
    var end: Date?
    var secret: Date?
    var others: [Date] = []

    static func describe(_ entity: inout Entity) {
        entity.attribute("secret") { $0.isEncrypted = true }
    }
}

/// Dates are read back exactly as they were saved.
@Suite(.timeLimit(.minutes(15))) struct DateTests {
    private let relay: TestRelay
    private let phone: Mirrored
    private let laptop: Mirrored

    init() async throws {
        relay = try TestRelay()
        let key = PassphraseEncryptionKey("open sesame", cost: .light)
        let model = MirrorModel(Appointment.self)
        phone = try await Mirrored(relay.device(of: "alice", named: "phone", encryptionKey: key), model: model)
        laptop = try await Mirrored(relay.device(of: "alice", named: "laptop", encryptionKey: key), model: model)
    }

    /// Dates of many magnitudes that are exact in seconds since 1970, in seconds since 2001, or in neither.
    static let dates: [Date] = [
        Date(timeIntervalSinceReferenceDate: 0.1), Date(timeIntervalSinceReferenceDate: 712_345_678.123_456_7),
        Date(timeIntervalSinceReferenceDate: (712_345_678.123_456_7).nextUp), Date(timeIntervalSince1970: 0.1),
        Date(timeIntervalSince1970: 1_700_000_000.123), Date(timeIntervalSince1970: 1_700_000_000.123_456_789),
        Date(timeIntervalSince1970: -1_234_567_890.5), Date(timeIntervalSinceReferenceDate: -1e-9),
        Date(timeIntervalSinceReferenceDate: 1 / 3), Date(timeIntervalSinceReferenceDate: 978_307_200 / 7),
        .distantPast, .distantFuture, Date(timeIntervalSince1970: 9.2e15), Date(timeIntervalSinceReferenceDate: 1e-300),
    ]

    private func appointment(_ mirror: Mirrored, _ id: RecordName = "a") throws -> Appointment {
        try #require(try mirror.context().object(Appointment.self, id))
    }

    private func edit(_ mirror: Mirrored, _ change: (inout Appointment) -> Void) throws {
        let context = mirror.context()
        try context.edit(Appointment.self, "a", change)
        try context.save()
    }

    private func expect(_ date: Date, _ mirror: Mirrored, _ line: Int = #line) throws {
        let found = try appointment(mirror)
        let dates = [found.at, found.end, found.secret] + found.others
        #expect(dates == [date, date, date, date], "line \(line)")
    }

    @Test("a date is equal on every device, also after edits of other properties", arguments: dates)
    func aDateIsEqualEverywhere(_ date: Date) async throws {
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: date, end: date, secret: date, others: [date]))
        try context.save()
        try expect(date, phone)
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] { try expect(date, mirror) }
        for (mirror, other) in [(laptop, phone), (phone, laptop)] {
            try edit(mirror) { $0.title += "." }
            try expect(date, mirror)
            for device in [mirror, other] { try await device.sync() }
            for device in [mirror, other] { try expect(date, device) }
        }
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let record = try await phone.device.privateDatabase.record(for: .init(recordName: "a", zoneID: zone))
        #expect(record["CD_at"] == date)
        record["CD_title"] = "by CloudKit's API"
        try await phone.device.privateDatabase.save(record)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            try expect(date, mirror)
            #expect(try appointment(mirror).title == "by CloudKit's API")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        let fresh = try await Mirrored(phone.device, model: MirrorModel(Appointment.self))
        try await fresh.container.fetchChanges()
        try expect(date, fresh)
        #expect(try phone.context().fetch(Appointment.self, \.at == date).count == 1)
    }

    @Test("a change of less than a millisecond is synced, and so is its reversal")
    func theSmallestChangeIsSynced() async throws {
        let first = Date(timeIntervalSinceReferenceDate: 712_345_678.123_456_7)
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: first))
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        let seconds = first.timeIntervalSinceReferenceDate
        let next = [seconds.nextUp, seconds.nextDown, seconds + 0.000_3, seconds].map(
            Date.init(timeIntervalSinceReferenceDate:)
        )
        for date in next + [Date(timeIntervalSince1970: first.timeIntervalSince1970), first] {
            try edit(phone) { $0.at = date }
            #expect(try appointment(phone).at == date)
            for mirror in [phone, laptop] { try await mirror.sync() }
            for mirror in [phone, laptop] { #expect(try appointment(mirror).at == date) }
        }
    }

    @Test("plain SQL reads and writes seconds since 1970")
    func plainSQLUsesSeconds() async throws {
        let date = Date(timeIntervalSinceReferenceDate: 712_345_678.123_456_7)
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: date, end: date))
        try context.save()
        let database = try #require(phone.container.database(of: phone.store))
        let seconds = try await database.read { db in
            try Double.fetchAll(
                db,
                sql: #"SELECT at FROM Appointment WHERE typeof(at) = 'real' UNION ALL SELECT "end" FROM Appointment"#
            )
        }
        #expect(seconds == [date.timeIntervalSince1970, date.timeIntervalSince1970])
        try await phone.sync()
        try await database.write { try $0.execute(sql: "UPDATE Appointment SET at = at + 60, title = 'later'") }
        let later = Date(timeIntervalSince1970: date.timeIntervalSince1970 + 60)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try appointment(mirror).at == later && appointment(mirror).end == date)
        }
        try await database.write { try $0.execute(sql: "REPLACE INTO Appointment SELECT * FROM Appointment") }
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try appointment(phone).end == date)
        try await database.write { try $0.execute(sql: #"UPDATE Appointment SET at = 0.1, "end" = NULL"#) }
        for mirror in [phone, laptop, phone] {
            try await mirror.sync()
            #expect(abs(try appointment(mirror).at.timeIntervalSince1970 - 0.1) < 1e-6)
            #expect(try appointment(mirror).end == nil)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    @Test("a merge keeps the exact date of the winning side", arguments: [true, false])
    func aMergeKeepsTheExactDate(_ mineWins: Bool) async throws {
        let model = MirrorModel(Appointment.self)
        let merging = try await Mirrored(relay.device(of: "alice", named: "tablet"), model: model) { description in
            description.cloud?.propertyResolvers["Appointment.at"] = { _, mine, theirs in
                let isReal = Double.fromDatabaseValue(mine) != nil && Double.fromDatabaseValue(theirs) != nil
                return isReal ? (mineWins ? mine : theirs) : nil
            }
        }
        let (first, mine, theirs) = (Self.dates[1], Self.dates[9], Self.dates[8])
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: first))
        try context.save()
        for mirror in [phone, merging] { try await mirror.sync() }
        try edit(merging) { $0.at = mine }
        try edit(phone) { $0.at = theirs }
        for mirror in [phone, merging, phone] { try await mirror.sync() }
        for mirror in [phone, merging] { #expect(try appointment(mirror).at == (mineWins ? mine : theirs)) }
    }
}
