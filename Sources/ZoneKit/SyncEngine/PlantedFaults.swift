import Records
import SyncCore

// Where a planted fault takes hold in this module. See `PlantedFault`.

extension SyncDriver {
    /// What is done with a page before the application has it: nothing.
    func beforeDelivery(of page: ZonePage<CKRecord>, in zone: ZoneID) async {
        guard PlantedFault.tokenBeforeData.isPlanted else { return }
        state.update { $0.feed.zoneTokens[zone] = page.token }
        await saveState()
    }
}
