import GRDB
import Records
import Testing

@testable import RelayStore

@Suite struct StoreFailureTests {
    /// SQLite returns the second code if there is no space for the log's index.
    @Test(arguments: [ResultCode.SQLITE_FULL, .SQLITE_IOERR_SHMSIZE]) func aFullDiskIsReported(_ code: ResultCode) {
        let told = StoreFailure.relayError(for: DatabaseError(resultCode: code))
        #expect(told.code == .tryAgainLater)
        #expect(told.reason == "The relay's disk is full.")
    }
}
