//! `--trace` of `windward perf client`: windows and rates over time, as known to the endpoints.

use std::path::{Path, PathBuf};

use windward_net::perf::Interval;
use windward_sim::output::{OutputDir, OutputError};
use windward_sim::table::{Cell, Column, Format};
use windward_sim::trace::{FlowRow, SeriesFile, columns};

/// The file, which appears when it is complete.
pub(super) struct Series {
    file: SeriesFile,
    dir: OutputDir,
}

impl Series {
    pub(super) fn create(dir: &Path, format: Format) -> Result<Self, OutputError> {
        let dir = OutputDir::create(dir)?;
        // The ends of a path do not know the throughput at its bottleneck; the packets sent are
        // known.
        let columns = columns::<FlowRow>().into_iter().map(|column| match column.name {
            "throughput_bps" => Column { name: "sent_bps", ..column },
            _ => column,
        });
        let file = SeriesFile::create(&dir, "flows", format, &columns.collect::<Vec<_>>())?;
        Ok(Series { file, dir })
    }

    pub(super) fn sample(
        &mut self,
        sample: &Interval,
        names: &[(String, &'static str)],
    ) -> Result<(), OutputError> {
        for (at, ((name, _), flow)) in names.iter().zip(&sample.flows).enumerate() {
            self.file.row(&[
                Cell::Real(sample.end_s),
                Cell::text(name),
                Cell::Real(flow.cwnd),
                Cell::Real(flow.ssthresh),
                Cell::Real(flow.srtt_s),
                Cell::Count(flow.in_flight),
                Cell::Real(sample.goodput_bps[at]),
                Cell::Real(sample.sent_bps[at]),
            ])?;
        }
        Ok(())
    }

    /// Gives the file its name and returns it.
    pub(super) fn commit(self) -> Result<PathBuf, OutputError> {
        let Series { file, mut dir } = self;
        let path = file.complete(&mut dir)?;
        dir.commit()?;
        Ok(path)
    }
}
