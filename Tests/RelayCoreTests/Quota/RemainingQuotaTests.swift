import Records
import RelayCore
import Testing

@Suite struct RemainingQuotaTests {
    private func record(_ fields: Int, name: String = "n", isDeleted: Bool = false) -> StoredRecord {
        let stamp = StoredRecord.Stamp(
            at: Timestamp(milliseconds: 0),
            by: UserID("_a"),
            device: DeviceFingerprint(bits: 0)
        )
        return StoredRecord(
            name: name,
            type: "Note",
            change: 1,
            created: stamp,
            modified: stamp,
            fields: Array(repeating: 0x20, count: fields),
            isDeleted: isDeleted
        )
    }

    @Test func aRecordCountsItsNameAndFieldsAndATombstoneNothing() {
        #expect(StorageUse(of: record(50, name: "abc")) == StorageUse(records: 153))
        #expect(StorageUse(of: record(50, isDeleted: true)) == StorageUse())
        #expect(StorageUse(of: nil) == StorageUse())
    }

    @Test func theQuotaCanBeUsedCompletely() throws {
        var room = RemainingQuota(use: StorageUse(records: 60), records: 100, owner: .container)
        try room.take(StorageUse(records: 40))
        #expect(throws: RelayError.self) { try room.take(StorageUse(records: 1)) }
        #expect(room.use.records == 100)
    }

    @Test func shrinkingIsAllowedAboveTheQuota() throws {
        var room = RemainingQuota(use: StorageUse(records: 500, assets: 900), total: 100, owner: .caller)
        try room.take(StorageUse())
        try room.take(StorageUse(records: -10))
        // More record bytes and fewer asset bytes are less in total.
        try room.take(StorageUse(records: 10, assets: -11))
        #expect(throws: RelayError.self) { try room.take(StorageUse(records: 1)) }
        #expect(room.assetBytesLeft == 0)
    }

    @Test func publicRecordsAndAssetsHaveSeparateLimits() throws {
        var room = RemainingQuota(use: StorageUse(), records: 100, assets: 1000, owner: .container)
        try room.take(StorageUse(records: 100))
        try room.take(StorageUse(assets: 1000))
        let noRecords = #expect(throws: RelayError.self) { try room.take(StorageUse(records: 1)) }
        let noAssets = #expect(throws: RelayError.self) { try room.take(StorageUse(assets: 1)) }
        #expect(noRecords?.code == .quotaExceeded && noRecords?.reason.contains("quota.public-records") == true)
        #expect(noAssets?.code == .quotaExceeded && noAssets?.reason.contains("quota.public-assets") == true)
    }

    @Test func aParticipantIsNotToldTheOwnersQuota() {
        var room = RemainingQuota(use: StorageUse(), total: 5_000_000_000, owner: .zoneOwner)
        let refusal = #expect(throws: RelayError.self) { try room.take(StorageUse(records: 6_000_000_000)) }
        #expect(refusal?.reason.contains("GB") == false)
        #expect(refusal?.retryAfter == nil)
    }

    @Test(
        arguments: [
            (999, "999 bytes"), (1000, "1 kB"), (1_550, "1.5 kB"), (100_000_000, "100 MB"), (5_000_000_000, "5 GB"),
        ] as [(Int64, String)]
    )
    func byteCountsAreFormattedForPeople(_ bytes: Int64, _ text: String) { #expect(ByteText.of(bytes) == text) }

    @Test func limitsGrowWithTheNumberOfUsersWithoutOverflow() {
        let growing = QuotaSettings.Growing(base: 100, perUser: 3)
        #expect(growing.bytes(forUsers: 0) == 100)
        #expect(growing.bytes(forUsers: 10) == 130)
        #expect(QuotaSettings.Growing(base: 1, perUser: .max).bytes(forUsers: 2) == .max)
        #expect(QuotaSettings.Growing(base: .max, perUser: 1).bytes(forUsers: 1) == .max)
    }

    @Test(
        arguments: [
            (0, 1970 * 12), (-1, 1970 * 12 - 1), (951_782_399_999, 2000 * 12 + 1), (951_868_800_000, 2000 * 12 + 2),
            (1_798_761_600_000, 2027 * 12), (1_798_761_599_999, 2026 * 12 + 11),
        ] as [(Int64, Int)]
    )
    func aTimestampsMonthIsComputed(_ moment: Int64, _ number: Int) {
        let month = CalendarMonth(of: Timestamp(milliseconds: moment))
        #expect(month.number == number)
        #expect(month.start.milliseconds <= moment && moment < month.next.start.milliseconds)
    }

    @Test func theStartOfAMonthIsInTheMonth() {
        for number in (1960 * 12)...(2110 * 12) {
            #expect(CalendarMonth(of: CalendarMonth(number: number).start).number == number)
        }
    }
}
