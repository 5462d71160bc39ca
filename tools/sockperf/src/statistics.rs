//! Confidence intervals: the normal distribution for many values, Student's for few runs.

/// z such that a standard normal value lies within ±z with probability `level`.
pub fn normal_quantile(level: f64) -> f64 {
    bisect(level, |z| erf(z / std::f64::consts::SQRT_2))
}

/// t such that Student's distribution with `freedom` degrees lies within ±t with probability `level`.
pub fn student_quantile(level: f64, freedom: u32) -> f64 {
    bisect(level, |t| student_within(t, f64::from(freedom)))
}

/// Mean of `values` and half the width of its confidence interval; infinite for fewer than two.
pub fn mean_with_confidence(values: &[f64], level: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, student_quantile(level, values.len() as u32 - 1) * (variance / n).sqrt())
}

fn bisect(level: f64, within: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if within(middle) < level { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Integrates the density from -t to t by Simpson's rule over the angle, where it is smooth: with
/// t = sqrt(n) tan(a), the density becomes cos(a)^(n-1), and its own integral normalises it.
fn student_within(t: f64, n: f64) -> f64 {
    let integral = |end: f64| {
        const STEPS: usize = 400;
        let h = end / STEPS as f64;
        let f = |i: usize| (i as f64 * h).cos().max(0.0).powf(n - 1.0);
        let inner: f64 = (1..STEPS).map(|i| if i % 2 == 1 { 4.0 * f(i) } else { 2.0 * f(i) }).sum();
        (f(0) + inner + f(STEPS)) * h / 3.0
    };
    integral((t / n.sqrt()).atan()) / integral(std::f64::consts::FRAC_PI_2)
}

/// Error function by its series; enough for |x| below 6, where it is 1 in double precision.
fn erf(x: f64) -> f64 {
    if x > 6.0 {
        return 1.0;
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_the_printed_tables() {
        for (level, z) in [(0.90, 1.6449), (0.95, 1.9600), (0.99, 2.5758)] {
            assert!((normal_quantile(level) - z).abs() < 1e-3, "{level}");
        }
        for (level, n, t) in
            [(0.95, 1, 12.706), (0.95, 4, 2.776), (0.99, 4, 4.604), (0.95, 9, 2.262), (0.99, 30, 2.750)]
        {
            assert!(
                (student_quantile(level, n) / t - 1.0).abs() < 1e-3,
                "{level} {n}: {}",
                student_quantile(level, n)
            );
        }
    }

    #[test]
    fn one_run_has_no_confidence_interval() {
        assert_eq!(mean_with_confidence(&[3.0], 0.95), (3.0, f64::INFINITY));
        let (mean, half) = mean_with_confidence(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert_eq!(mean, 3.0);
        assert!((half - 1.963).abs() < 1e-2, "{half}");
    }
}
