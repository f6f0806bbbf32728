//! The measured peaks of devices.

use sqlx::Row;

use super::columns::now;
use super::{Store, StoreError};
use crate::domain::device::{DeviceInfo, Peaks, TimeSource};

impl Store {
    /// Reads the peaks that were measured on this device with its driver. None if there are none, and for devices
    /// that model their times.
    pub async fn peaks_of(&self, device: &DeviceInfo) -> Result<Option<Peaks>, StoreError> {
        if device.time_source() != TimeSource::Measured {
            return Ok(None);
        }
        let row = sqlx::query("SELECT * FROM peaks WHERE device = ? AND driver = ?")
            .bind(name(device))
            .bind(driver(device))
            .fetch_optional(&self.pool)
            .await?;
        row.map(|row| {
            Ok(Peaks {
                f16_flops: row.try_get("f16_flops")?,
                f32_flops: row.try_get("f32_flops")?,
                memory_bytes_per_s: row.try_get("memory_bytes_per_s")?,
                l2_bytes_per_s: row.try_get("l2_bytes_per_s")?,
                launch_ns: row.try_get("launch_ns")?,
                source: row.try_get("source")?,
            })
        })
        .transpose()
    }

    /// Records the peaks of a device, in place of earlier ones. Modelled peaks are not recorded.
    pub async fn keep_peaks(&self, device: &DeviceInfo, peaks: &Peaks) -> Result<(), StoreError> {
        if device.time_source() != TimeSource::Measured {
            return Ok(());
        }
        sqlx::query("INSERT OR REPLACE INTO peaks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(name(device))
            .bind(driver(device))
            .bind(peaks.f16_flops)
            .bind(peaks.f32_flops)
            .bind(peaks.memory_bytes_per_s)
            .bind(peaks.l2_bytes_per_s)
            .bind(peaks.launch_ns)
            .bind(&peaks.source)
            .bind(now()?)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

fn name(device: &DeviceInfo) -> &str {
    device.uuid.as_ref().unwrap_or(&device.name)
}

fn driver(device: &DeviceInfo) -> &str {
    device.driver.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::device::TimingMode;
    use crate::store::testing::Scene;

    fn gpu(uuid: Option<&str>, driver: &str) -> DeviceInfo {
        DeviceInfo {
            uuid: uuid.map(str::to_owned),
            driver: Some(driver.to_owned()),
            timing: TimingMode::Measured(Default::default()),
            ..DeviceInfo::of_arch("sm_90a").unwrap()
        }
    }

    fn measured(launch_ns: f64) -> Peaks {
        Peaks { launch_ns, source: "measured on this device".to_owned(), ..gpu(None, "").peaks }
    }

    #[tokio::test]
    async fn peaks_belong_to_one_device_and_driver_and_the_newest_count() {
        let store = Scene::new().await.store;
        let device = gpu(Some("GPU-1"), "13.0");
        assert_eq!(store.peaks_of(&device).await.unwrap(), None);
        store.keep_peaks(&device, &measured(900.0)).await.unwrap();
        store.keep_peaks(&device, &measured(800.0)).await.unwrap();
        assert_eq!(store.peaks_of(&device).await.unwrap(), Some(measured(800.0)));
        for other in [gpu(Some("GPU-2"), "13.0"), gpu(Some("GPU-1"), "13.1"), gpu(None, "13.0")] {
            assert_eq!(store.peaks_of(&other).await.unwrap(), None, "{other:?}");
        }
        store.keep_peaks(&gpu(None, "13.0"), &measured(700.0)).await.unwrap();
        assert_eq!(store.peaks_of(&gpu(None, "13.0")).await.unwrap(), Some(measured(700.0)));
    }

    #[tokio::test]
    async fn what_a_model_says_is_not_kept() {
        let store = Scene::new().await.store;
        let modelled = DeviceInfo { timing: TimingMode::Modelled, ..gpu(None, "13.0") };
        store.keep_peaks(&modelled, &measured(900.0)).await.unwrap();
        assert_eq!(store.peaks_of(&modelled).await.unwrap(), None);
        assert_eq!(store.peaks_of(&gpu(None, "13.0")).await.unwrap(), None);
    }
}
